"""From a target, or a saved run, to a Session."""

from collections.abc import Callable
from pathlib import Path

from ctrace.inspector.build import assemble, build
from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.events import Event
from ctrace.inspector.launch import Output, launch
from ctrace.inspector.model import FailurePhase, Session, Target
from ctrace.inspector.order import Options, Order
from ctrace.inspector.reader import read
from ctrace.inspector.setup import check_torch
from ctrace.inspector.store import Run, Store
from ctrace.inspector.target import ProgramTarget, Resolved


def capture(
    resolved: Resolved,
    options: Options,
    *,
    store: Store,
    timeout: float | None = None,
    stdout: Output = None,
    stderr: Output = None,
    observe: Callable[[Event | None], None] = lambda _event: None,
) -> Session:
    """Run a target, keep the run in `store`, and give its Session.

    Raises:
        SetupError: there is no torch that ctrace can work with.
        TargetError: the target is not what it was taken for; nothing is kept.
        RunError: the run cannot be kept.
    """
    check_torch()
    run = store.create(_described(resolved))
    order = _order(resolved, options, run)
    outcome = launch(order, run, timeout=timeout, stdout=stdout, stderr=stderr, observe=observe)
    failure = outcome.failure
    if failure is not None and failure.phase is FailurePhase.TARGET:
        store.discard(run)
        raise TargetError(failure.message, failure.todo)
    session = assemble(outcome.raw, run.target, failure, outcome.seconds)
    store.finish(run, outcome.seconds, failure, summarised(session))
    return session


def load(run: Run) -> Session:
    """Read a saved run.

    Raises:
        RunError: its log is gone, or a newer ctrace wrote it.
    """
    try:
        return build(read(run.log), run.target, run.failure, run.seconds)
    except OSError as error:
        raise RunError(f"{run.log} cannot be read: {error.strerror}", "run the target again") from None


def load_log(log: Path) -> Session:
    """Read a log that torch wrote elsewhere (TORCH_TRACE).

    Raises:
        RunError: it cannot be read.
    """
    try:
        return build(read(log), Target(path=str(log)))
    except OSError as error:
        raise RunError(f"{log} cannot be read: {error.strerror}", "name a log that TORCH_TRACE made") from None


def only_log(folder: Path) -> Path:
    """Find the one log in a folder that TORCH_TRACE named.

    Raises:
        RunError: there is none, or more than one.
    """
    logs = sorted(folder.glob("*.log"))
    if len(logs) == 1:
        return logs[0]
    if not logs:
        raise RunError(f"{folder} holds no run and no trace log", "name a run, or a folder that TORCH_TRACE wrote to")
    raise RunError(f"{folder} holds {len(logs)} trace logs", f"name one of them, such as {logs[0]}")


def summarised(session: Session) -> dict[str, object]:
    """Say in numbers what a run showed, for the list of runs."""
    return {
        "verdict": str(session.verdict),
        "graphs": len(session.graphs),
        "breaks": len(session.breaks),
        "skipped": len(session.skips),
        "recompiles": len(session.recompiles),
        "torch": session.environment.torch,
    }


def _described(resolved: Resolved) -> Target:
    path = str(resolved.path) if resolved.path is not None else None
    if isinstance(resolved, ProgramTarget):
        return Target(path, resolved.module, resolved.args)
    name = resolved.name or "model"
    return Target(path, name if resolved.module is None else f"{resolved.module}:{name}")


def _order(resolved: Resolved, options: Options, run: Run) -> Order:
    is_program = isinstance(resolved, ProgramTarget)
    return Order(
        kind="program" if is_program else "model",
        path=str(resolved.path) if resolved.path is not None else None,
        module=resolved.module,
        name=None if isinstance(resolved, ProgramTarget) else resolved.name,
        args=resolved.args if isinstance(resolved, ProgramTarget) else (),
        options=options,
        log=str(run.log.resolve()),
    )
