"""Build a Session from a saved run or from a log of another machine."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.files.lock import in_use
from ctrace.inspector.files.writing import check_regular
from ctrace.inspector.log.reader import Broken, Entry, is_other_payload, read
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


_EDITED = 3
_EDITED_SHARE = 0.1
"""A log with this many payloads, and this share of them, that do not match their checksums counts as edited."""


class _Payloads(Struct):
    """Counts the payloads of a log."""

    all: int = 0
    other: int = 0
    """Those that do not match their checksums."""

    def counted(self, entries: Iterable[Entry | Broken]) -> Iterator[Entry | Broken]:
        """Count while a log is read."""
        for entry in entries:
            is_other = isinstance(entry, Broken) and is_other_payload(entry)
            self.other += is_other
            self.all += is_other or (isinstance(entry, Entry) and "has_payload" in entry.context)
            yield entry

    @property
    def is_edited(self) -> bool:
        """Whether somebody changed the log after torch wrote it; damage breaks single records."""
        return self.other >= max(_EDITED, _EDITED_SHARE * self.all)


def load_log(log: Path) -> Session:
    """Read a log that torch wrote elsewhere (TORCH_TRACE); of an edited log, use the payloads as they are.

    Raises:
        RunError: it cannot be read.
    """
    payloads = _Payloads()
    try:
        session = build(payloads.counted(read(log)), Target(path=str(log)))
        if payloads.is_edited:
            session = build(read(log, trust=True), Target(path=str(log)))
    except OSError as error:
        raise RunError(
            f"{log} cannot be read: {error.strerror or error}", "name a log that TORCH_TRACE wrote"
        ) from None
    if payloads.is_edited:
        what = (
            f"the log was edited, such as redacted: {payloads.other} of {payloads.all} payloads do not match their "
            "checksums, and are used as they are"
        )
        session = replace(session, problems=(Problem(what, is_doubt=True), *session.problems))
    return _marked(session)


def _marked(session: Session) -> Session:
    """Add the note that torch's log has no end mark, so that nobody can tell whether the job finished."""
    if session.environment.ctrace or session.cut_off:
        return session
    return replace(session, is_endless=True, problems=(*session.problems, Problem(NO_END_MARK)))
