"""Build a Session from a saved run or from a log of another machine."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.outcome import NO_END_MARK
from ctrace.inspector.facts.session import Problem, Session, Target
from ctrace.inspector.files.lock import in_use
from ctrace.inspector.files.writing import check_regular
from ctrace.inspector.log.dispatch import left_in_log, type_of_data
from ctrace.inspector.log.files import unreadable
from ctrace.inspector.log.reader import read
from ctrace.inspector.runs.store import SavedRun
from ctrace.inspector.session.build import build
from ctrace.inspector.session.session_cache import SessionCache


def load(run: SavedRun) -> Session:
    """Read a saved run.

    Raises:
        RunError: its log is missing, or a newer ctrace wrote it.
    """
    try:
        check_regular(run.log)
        # A newer run in another terminal may prune this one while it is read.
        with in_use(run.folder), no_collection():
            return build(read(run.log), run.target, run.failure, run.seconds, _unfinished(run))
    except OSError as error:
        raise RunError(f"{run.log} cannot be read: {error.strerror or error}", "run the target again") from None


def _unfinished(run: SavedRun) -> str:
    """Say that a run is incomplete; empty if it is complete."""
    if run.status != "running":
        return ""
    if run.is_active:
        return "the run is still in progress; later events are missing"
    return "the run is incomplete: ctrace was killed while it captured"


_LARGE = 4 << 20
"""The size from which a log keeps its long payloads until they are needed, so that memory does not grow with it."""


def load_log(
    log: Path,
    *,
    indexes: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Session:
    """Read a log that torch wrote elsewhere (TORCH_TRACE).

    Args:
        log: The log.
        indexes: The folder for indexes of large logs, which make later views of the same log start at once.
        progress: Is called with the number of bytes read so far, and the log's size.
        say: Is called with the reason if no index can be written.

    Raises:
        RunError: it cannot be read.
    """
    try:
        check_regular(log)
        size = log.stat().st_size
        index = SessionCache(indexes, log) if indexes is not None and size >= _LARGE else None
        with no_collection():
            if index is not None and (known := index.read()) is not None:
                # The log may be named in another way than when the index was written.
                return replace(known, target=Target(path=str(log)))
            session = _marked(_read(log, size, progress))
    except OSError as error:
        raise unreadable(log, error) from None
    if index is not None:
        _keep(index, session, say)
    return session


def _keep(index: SessionCache, session: Session, say: Callable[[str], None] | None) -> None:
    """Write the index; without one, the next view only takes longer."""
    try:
        index.write(session)
    except (OSError, ValueError) as error:
        if say is not None:
            why = getattr(error, "strerror", None) or error
            say(f"no index of the log was written ({why}): the next view reads all of it again")


def _read(log: Path, size: int, progress: Callable[[int, int], None] | None) -> Session:
    later, types = (left_in_log, type_of_data) if size >= _LARGE else (None, None)
    done = None if progress is None else lambda count: progress(count, size)
    return build(read(log, later=later, types=types, progress=done), Target(path=str(log)))


def _marked(session: Session) -> Session:
    """Add the note that torch's log has no end mark, so that nobody can tell whether the job finished."""
    # With evidence of a cut, the missing end mark adds nothing.
    if session.environment.ctrace or session.cut_off:
        return session
    return replace(session, is_endless=True, problems=(*session.problems, Problem(NO_END_MARK)))


@contextmanager
def no_collection() -> Iterator[None]:
    """Do not search for reference cycles: records of a log have none, and a search of millions of them is slow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
