"""Run a target, save the run, and build its Session (`capture`)."""

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.outcome import FailurePhase, Target
from ctrace.inspector.facts.trial import ProofRequest, Trial
from ctrace.inspector.files.writing import working_folder
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu
from ctrace.inspector.knowledge.releases import check_environment, check_triton
from ctrace.inspector.runs.capture_request import CaptureRequest, Options, TorchSetting, TorchSource
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.git_checkout import Checkout, checkout_of
from ctrace.inspector.runs.launch import Output, launch
from ctrace.inspector.runs.saving import Adds, Saving
from ctrace.inspector.runs.settings import Settings, settings_at
from ctrace.inspector.runs.store import SavedRun, Store
from ctrace.inspector.runs.target import ProgramTarget, Resolved

if TYPE_CHECKING:
    from ctrace.inspector.facts.run_events import Event
    from ctrace.inspector.facts.session import Session


_SEED_BITS = 32
"""NumPy takes no more."""

# Imports that are needed only while the program runs come later, so that the program starts early.


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
    child: ChildProcess | None = None,
    name: str | None = None,
    trial: Trial | None = None,
    proof: ProofRequest | None = None,
    calls: int = 0,
    seconds: float = 0.0,
    seed: int | None = None,
    config: tuple[TorchSetting, ...] = (),
    sources: tuple[TorchSource, ...] = (),
    called: str = "",
    then: "Callable[[Session, Adds], Session] | None" = None,
) -> "Session":
    """Run a target, save the run in `store`, and return its Session.

    Code in `owned` counts as the user's, in addition to the settings. With a `child`, other threads can end it.
    A run with a `name` is not pruned. If the run cannot be saved, `store.unsaved` has the error. A `trial` changes the
    model before the first call, to check a piece of advice. With a `proof`, the child observes the target's calls and
    writes the result to the proof's file. `calls`, `seconds`, `seed`, `config`, `sources` and
    `called` are those of `CaptureRequest`; a run that is compared with another needs its seed, any other gets a new
    one. `then` adds to the log and the session what is found out after the run: trials of its advice, a comparison
    with eager.

    Raises:
        SetupError: there is no supported torch, or the system cannot start a process.
        SettingsError: `[tool.ctrace]` in pyproject.toml is wrong.
        TargetError: the target is not what it seemed to be; nothing is saved.
        RunError: the run's log was written by a newer ctrace.
    """
    child = child or ChildProcess(has_terminal=True)
    if child.interpreter is None:
        check_environment()
    settings = settings_at(working_folder())
    gpu = _gpu(options, settings)
    target = _target(resolved)
    # Before the run, which may take hours: the user may check out something else meanwhile.
    checkout = checkout_of(resolved.path.parent if resolved.path is not None else working_folder())
    with Saving(store, target, name) as saving:
        request = _request(resolved, options, saving.run, (*settings.owned, *owned), gpu)
        if options.caches is not None:
            request = replace(request, caches=_private_folder(store, options.caches))
        outcome = launch(
            saving.request(
                replace(
                    request,
                    cores=child.cores,
                    trial=trial,
                    proof=proof,
                    calls=calls,
                    seconds=seconds,
                    config=config,
                    sources=sources,
                    called=called,
                    seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
                    records_files=child.records_files,
                )
            ),
            saving.run,
            timeout=timeout,
            stdout=stdout,
            stderr=stderr,
            observe=observe,
            child=child,
            meanwhile=_import_reader,
        )
        failure = outcome.failure
        if failure is not None and failure.phase is FailurePhase.TARGET:
            raise TargetError(failure.message, failure.todo)
        from ctrace.inspector.session.build import assemble

        session = assemble(outcome.raw, target, failure, outcome.seconds, unfinished="")
        if options.caches is not None:
            session = _with_earlier_keys(session, saving, store, options.caches)
        if then is not None:
            session = then(session, saving.add)
        saving.finish(outcome.seconds, session.failure, _summarized(session, checkout), is_whole=outcome.is_saved)
    return session


def _gpu(options: Options, settings: Settings) -> TargetGpu | None:
    if options.gpu is None:
        return None
    from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

    gpu = gpu_named(options.gpu, settings.gpus)
    check_triton()
    return gpu


def _private_folder(store: Store, kind: str) -> str:
    from ctrace.inspector.runs.cache_folder import PRIVATE, private_folder

    if kind == PRIVATE:
        return str(private_folder(store))
    return ""


def _with_earlier_keys(session: "Session", saving: Saving, store: Store, kind: str) -> "Session":
    from ctrace.inspector.runs.cache_folder import with_earlier_keys

    return with_earlier_keys(session, saving, store, kind)


def _import_reader() -> None:
    import ctrace.inspector.session.build  # noqa: F401


def _summarized(session: "Session", checkout: Checkout) -> dict[str, object]:
    """Return the verdict and counts of a run, and the code that it ran, for the list of runs."""
    return {
        "verdict": str(session.verdict),
        "graphs": len(session.graphs),
        "breaks": len(session.breaks),
        "skipped": len(session.skips),
        "recompiles": len(session.recompiles),
        "torch": session.environment.torch,
        "target_gpu": session.gpu.target or None if session.gpu is not None else None,
        "branch": checkout.branch,
        "commit": checkout.commit,
    }


def _target(resolved: Resolved) -> Target:
    path = None
    if resolved.path is not None:
        path = str(resolved.path)
    if isinstance(resolved, ProgramTarget):
        return Target(path, resolved.module, resolved.args)
    name = resolved.name or "model"
    return Target(path, name if resolved.module is None else f"{resolved.module}:{name}")


def _request(
    resolved: Resolved, options: Options, run: SavedRun | None, owned: tuple[str, ...], gpu: TargetGpu | None
) -> CaptureRequest:
    log = ""
    if run is not None:
        # Resolved, because a program may change its working directory.
        log = str(run.log.resolve())
    request = CaptureRequest(
        kind="model",
        path=str(resolved.path) if resolved.path is not None else None,
        module=resolved.module,
        name=None,
        args=(),
        options=options,
        log=log,
        owned=owned,
        gpu=gpu,
        typed=None,
    )
    if isinstance(resolved, ProgramTarget):
        return replace(request, kind="program", args=resolved.args, typed=resolved.typed)
    return replace(request, name=resolved.name)
