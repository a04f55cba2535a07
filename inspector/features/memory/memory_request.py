"""What `ctrace memory` asks of its child process (`MemoryRequest`), and what was found compiled, joined with what was
found in eager, line by line (`with_eager`).
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.memory_facts import FoundMemory, LineMemory
from ctrace.inspector.facts.wire import Integer
from ctrace.inspector.runs.capture_request import CaptureRequest


class MemoryRequest(Struct, frozen=True):
    """The request to the child process."""

    capture: CaptureRequest
    calls: int = 0
    """How many equal calls to make, to see what stays alive after each; 0: none beyond those for the peak."""
    tries_options: bool = False
    """Whether to try what may lower the peak."""
    budget: float = 60.0
    """The seconds after which no further option is tried."""
    fit: str = ""
    """What to enlarge until it no longer fits: `batch`, or `0.1` for dimension 1 of the first input; empty: nothing."""
    limit: int | None = None
    """The bytes that it has to fit into; None: those of the device that the model runs on."""
    limited_by: str = ""
    """What has that limit, such as `h100`."""
    is_eager: bool = False
    """Whether to run a program without compiling anything."""
    entered: tuple[tuple[str, Integer, str], ...] = ()
    """The functions that are compiled otherwise: file, first line and name."""
    without_gradients: bool = False
    """Whether to run a program under `torch.no_grad()`."""
    measures: str = ""
    """The type of device on which to measure the peak of a program, with built kernels; empty: it is computed."""


class SavedAt(Struct, frozen=True):
    """What a line saves for the backward."""

    file: str | None
    line: Integer | None
    bytes: Integer
    """The most at one time."""
    sizes: tuple[Integer, ...]
    """Of each tensor."""


class RunMemory(Struct, frozen=True):
    """The memory of one run of a program, eager or compiled."""

    found: FoundMemory
    saved: tuple[SavedAt, ...] = ()
    saved_bytes: Integer = 0
    """The most that all lines save at one time."""
    entered: tuple[tuple[str, Integer, str], ...] = ()
    """The functions that are compiled."""
    backwards: Integer = 0
    """How often a backward ran in a program."""


Place = tuple[str | None, int | None]


def with_eager(compiled: RunMemory, eager: RunMemory) -> FoundMemory:
    """Return what was found compiled, beside eager."""
    found, beside = compiled.found, eager.found
    sizes = {(each.file, each.line): each.sizes for each in eager.saved}
    # Two runs share no tensors: a line that saves as many bytes in eager saves the same thing.
    saved = tuple(
        replace(each, eager_saves=each.bytes in sizes.get((each.file, each.line), ())) for each in found.saved
    )
    return replace(
        found,
        eager_peak=beside.peak,
        eager_alive=beside.alive,
        saved=saved,
        saved_bytes=compiled.saved_bytes,
        eager_saved_bytes=eager.saved_bytes,
        lines=tuple(_lines(compiled, eager)),
        problems=tuple(dict.fromkeys((*found.problems, *beside.problems))),
    )


def _lines(compiled: RunMemory, eager: RunMemory) -> Iterator[LineMemory]:
    """Yield each line with what it holds at both peaks and what it saves, the largest difference first."""
    sources: dict[Place, str] = {}
    totals: list[dict[Place, int]] = [{}, {}]
    for total, some in zip(totals, (compiled.found.alive, eager.found.alive), strict=True):
        for each in some:
            place = each.file, each.line
            total[place] = total.get(place, 0) + each.bytes
            sources.setdefault(place, each.source)
    saved, eager_saved = (_saved(each) for each in (compiled, eager))
    found = [
        LineMemory(
            file=place[0],
            line=place[1],
            bytes=totals[0].get(place, 0),
            eager_bytes=totals[1].get(place, 0),
            saved_bytes=saved.get(place, 0),
            eager_saved_bytes=eager_saved.get(place, 0),
            source=sources.get(place, ""),
        )
        # A line may only save, and hold nothing at either peak.
        for place in dict.fromkeys((*sources, *saved, *eager_saved))
    ]
    yield from sorted(found, key=_difference)


def _saved(run: RunMemory) -> Mapping[Place, int]:
    return {(each.file, each.line): each.bytes for each in run.saved}


def _difference(line: LineMemory) -> tuple[int, int, str, int]:
    return -abs(line.bytes - line.eager_bytes), -line.bytes, line.file or "", line.line or 0
