"""Read the compile steps of one rank, for a time line over all ranks."""

from msgspec import Struct

from ctrace.inspector.facts.run_events import SpanMarked
from ctrace.inspector.findings.compile_time_fold import Timeline, timeline
from ctrace.inspector.log.dispatch import decode
from ctrace.inspector.log.folders import LogFile, opened_log
from ctrace.inspector.log.framing import pieces, records
from ctrace.inspector.log.raw import Marks
from ctrace.inspector.log.reader import LogEntry, Reader, whole
from ctrace.inspector.log.reading_limits import longest_record

_STEP = b'"chromium_event"'
_START = "dynamo"
"""The outermost step of a compilation (torch/_dynamo/convert_frame.py, 2.11 to 2.15)."""


class Steps(Struct, frozen=True):
    """The compile steps of one rank."""

    rank: int
    timeline: Timeline
    starts: dict[str, float]
    """When each compilation began, in seconds from the first step of this rank."""


def steps_of(log: LogFile) -> Steps:
    """Read the steps of a log, and skip its other records.

    Raises:
        RunError: it cannot be read, or its parts cannot be joined.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    marks, starts = Marks(), dict[str, float]()
    reader = Reader()
    with opened_log(log) as file:
        for piece in pieces(whole(file), longest_record()):
            for start, line, end in records(piece):
                header = piece[start:line]
                if _STEP not in header:
                    continue
                entry = reader.entry(0, header, piece[line:end], 0, is_last=False)
                mark = decode(entry) if isinstance(entry, LogEntry) else None
                if isinstance(mark, SpanMarked):
                    marks.append(mark)
                    _learn(mark, starts)
    found = timeline(marks.columns())
    first = found.start or 0.0
    return Steps(log.rank or 0, found, {graph: (at - first) / 1e6 for graph, at in starts.items()})


def _learn(mark: SpanMarked, starts: dict[str, float]) -> None:
    """Keep the begin of a compilation."""
    if mark.begins and mark.name == _START and mark.compilation is not None and mark.at is not None:
        starts.setdefault(mark.compilation, mark.at)
