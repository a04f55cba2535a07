"""Build a Session from a saved run or from a log of another machine."""

from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.files.lock import in_use
from ctrace.inspector.files.writing import check_regular
from ctrace.inspector.log.reader import read
from ctrace.inspector.model.outcome import NO_END_MARK
from ctrace.inspector.model.session import Problem, Session, Target
from ctrace.inspector.runs.store import Run
from ctrace.inspector.session.build import build


def load(run: Run) -> Session:
    """Read a saved run.

    Raises:
        RunError: its log is missing, or a newer ctrace wrote it.
    """
    try:
        check_regular(run.log)
        with in_use(run.folder):
            return build(read(run.log), run.target, run.failure, run.seconds, _unfinished(run))
    except OSError as error:
        raise RunError(f"{run.log} cannot be read: {error.strerror or error}", "run the target again") from None


def _unfinished(run: Run) -> str:
    """Say that a run is incomplete; empty if it is complete."""
    if run.status != "running":
        return ""
    if run.is_active:
        return "the run is still in progress; later events are missing"
    return "the run is incomplete: ctrace was killed while it captured"


def load_log(log: Path) -> Session:
    """Read a log that torch wrote elsewhere (TORCH_TRACE).

    Raises:
        RunError: it cannot be read.
    """
    try:
        return _marked(build(read(log), Target(path=str(log))))
    except OSError as error:
        raise RunError(f"{log} cannot be read: {error.strerror}", "name a log that TORCH_TRACE wrote") from None


def _marked(session: Session) -> Session:
    """Add the note that torch's log has no end mark, so that nobody can tell whether the job finished."""
    if session.environment.ctrace or session.cut_off:
        return session
    return replace(session, is_endless=True, problems=(*session.problems, Problem(NO_END_MARK)))


def only_log(folder: Path) -> Path:
    """Find the only log in a folder to which TORCH_TRACE wrote.

    Raises:
        RunError: there is no log, or more than one.
    """
    logs = sorted(folder.glob("*.log"))
    if len(logs) == 1:
        return logs[0]
    if not logs:
        raise RunError(f"{folder} has no run and no trace log", "name a run, or a folder that TORCH_TRACE wrote to")
    raise RunError(f"{folder} has {len(logs)} trace logs", f"name one of them, such as {logs[0]}")
