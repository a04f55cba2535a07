"""Keep the begin and end marks of compile steps, of which a log may have millions, in columns."""

from array import array
from collections.abc import Iterator

from ctrace.inspector.facts.compile_time import MarkColumns
from ctrace.inspector.facts.events.core import SpanMarked

_NEVER = float("nan")


class _Numbers(dict[str | None, int]):
    """Numbers texts in the order in which they come."""

    def __missing__(self, text: str | None) -> int:
        """Return the next number."""
        found = self[text] = len(self)
        return found


class Marks:
    """The begin and end marks of a log, in its order."""

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._rows = array("I")
        """For each mark the numbers of its thread, name and compilation, then whether it begins a step."""
        self._times = array("d")
        """NaN: the log has no time."""

    def append(self, mark: SpanMarked) -> None:
        """Add a mark."""
        numbers = self._numbers
        self._rows.extend((numbers[mark.thread], numbers[mark.name], numbers[mark.compilation], mark.begins))
        self._times.append(_NEVER if mark.at is None else mark.at)

    def columns(self) -> MarkColumns:
        """Return all marks, as a session keeps them."""
        return MarkColumns(tuple(self._numbers), self._rows.tobytes(), self._times.tobytes())

    def __len__(self) -> int:
        return len(self._times)


def marks_of(columns: MarkColumns) -> Iterator[SpanMarked]:
    """Yield the marks of a log, in its order."""
    rows, texts = iter(array("I", columns.rows)), columns.texts
    for at, thread, name, compilation, begins in zip(array("d", columns.times), rows, rows, rows, rows, strict=True):
        time = at if at == at else None
        yield SpanMarked(texts[thread] or "", texts[name] or "", bool(begins), texts[compilation], None, time)
