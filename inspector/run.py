"""From a target to a Session: run it, keep the run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.inspector.ended import FailurePhase, Target
from ctrace.inspector.errors import TargetError
from ctrace.inspector.gpus.gpu import TargetGpu
from ctrace.inspector.launch import Output, launch
from ctrace.inspector.leash import Leash
from ctrace.inspector.order import Options, Order
from ctrace.inspector.settings import Settings, settings_at
from ctrace.inspector.setup import check_torch, check_triton
from ctrace.inspector.store import Run, Store
from ctrace.inspector.target import ProgramTarget, Resolved

if TYPE_CHECKING:
    from ctrace.inspector.events import Event
    from ctrace.inspector.model import Session

# What is needed only once the program runs is imported then: a program that starts late ends late.


def capture(
    resolved: Resolved,
    options: Options,
    *,
    store: Store,
    timeout: float | None = None,
    stdout: Output = None,
    stderr: Output = None,
    observe: "Callable[[Event | None], None]" = lambda _event: None,
    owned: tuple[str, ...] = (),
    leash: Leash | None = None,
) -> "Session":
    """Run a target, keep the run in `store`, and give its Session.

    Code in `owned` is the user's, beside what the settings say. With a `leash`, other threads can end the program.

    Raises:
        SetupError: there is no torch that ctrace can work with.
        SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
        TargetError: the target is not what it was taken for; nothing is kept.
        RunError: the run cannot be kept.
    """
    check_torch()
    settings = settings_at(Path.cwd())
    gpu = _gpu(options, settings)
    run = store.create(_described(resolved))
    order = _order(resolved, options, run, (*settings.owned, *owned), gpu)
    talk = {"stdout": stdout, "stderr": stderr}
    outcome = launch(order, run, timeout=timeout, **talk, observe=observe, leash=leash, meanwhile=_import_reader)
    failure = outcome.failure
    if failure is not None and failure.phase is FailurePhase.TARGET:
        store.discard(run)
        raise TargetError(failure.message, failure.todo)
    from ctrace.inspector.build import assemble

    session = assemble(outcome.raw, run.target, failure, outcome.seconds)
    store.finish(run, outcome.seconds, session.failure, _summarised(session))
    return session


def _gpu(options: Options, settings: Settings) -> TargetGpu | None:
    if options.target is None:
        return None
    from ctrace.inspector.gpus.table import gpu_named

    gpu = gpu_named(options.target, settings.gpus)
    check_triton()
    return gpu


def _import_reader() -> None:
    import ctrace.inspector.build  # noqa: F401


def _summarised(session: "Session") -> dict[str, object]:
    """Say in numbers what a run showed, for the list of runs."""
    return {
        "verdict": str(session.verdict),
        "graphs": len(session.graphs),
        "breaks": len(session.breaks),
        "skipped": len(session.skips),
        "recompiles": len(session.recompiles),
        "torch": session.environment.torch,
        "target_gpu": session.gpu.target or None if session.gpu is not None else None,
    }


def _described(resolved: Resolved) -> Target:
    path = str(resolved.path) if resolved.path is not None else None
    if isinstance(resolved, ProgramTarget):
        return Target(path, resolved.module, resolved.args)
    name = resolved.name or "model"
    return Target(path, name if resolved.module is None else f"{resolved.module}:{name}")


def _order(resolved: Resolved, options: Options, run: Run, owned: tuple[str, ...], gpu: TargetGpu | None) -> Order:
    is_program = isinstance(resolved, ProgramTarget)
    return Order(
        kind="program" if is_program else "model",
        path=str(resolved.path) if resolved.path is not None else None,
        module=resolved.module,
        name=None if isinstance(resolved, ProgramTarget) else resolved.name,
        args=resolved.args if isinstance(resolved, ProgramTarget) else (),
        options=options,
        log=str(run.log.resolve()),
        owned=owned,
        gpu=gpu,
    )
