"""Bounds of kernels that were emitted for a GPU, on a screen: the least time of each, and what sets it."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.kernels.bounds import Least, PartLeast, bounds, peaks
from ctrace.inspector.kernels.view import Part
from ctrace.inspector.model.built import Gpu
from ctrace.inspector.model.session import Session
from ctrace.inspector.target.view import NEEDS_DEVICE, target_of
from ctrace.reports import format as fmt
from ctrace.reports.terminal.columns import WIDE, columned
from ctrace.reports.terminal.parts import section
from ctrace.reports.text.kernels import UNKNOWN, memory
from ctrace.reports.text.target import least_text

_ROWS = 12
_COLUMNS = ("kernel", ">calls", ">bytes", ">FLOPs", ">FLOP/B", ">at least", "set by")
_SHORT = {"memory": "memory", "arithmetic": "FLOPs"}


def bounds_screen(
    session: Session, found: tuple[Part, ...], width: int, *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show the bounds of graph parts on the GPU that their kernels were emitted for."""
    gpu, parts = target_of(session), bounds(session, found)
    if gpu is None or not parts:
        return
    yield section(f"At least on {fmt.one_line(gpu.target, 30)}: bounds, computed; times {NEEDS_DEVICE}")
    shown = {id(part): part.kernels if all_of_it else part.kernels[:_ROWS] for part in parts}
    rows: list[tuple[str, ...]] = []
    for part in parts:
        if len(parts) > 1:
            rows.append((f"{part.graph} {part.stage}:", *([""] * (len(_COLUMNS) - 1))))
        rows += [_row(each, width) for each in shown[id(part)]]
    yield columned(width, _COLUMNS, rows)
    if left := sum(len(part.kernels) - len(shown[id(part)]) for part in parts):
        yield Text(f"and {fmt.count(left, 'more kernel')}: see --all", style="dim")
    for part in parts:
        yield _sum(part)
    yield from _notes(gpu, parts)


def _row(each: Least, width: int) -> tuple[str, ...]:
    work = each.row.work
    sets = each.sets if width >= WIDE else [_SHORT[one] for one in each.sets]
    return (
        fmt.one_line(each.row.label),
        str(each.row.kernel.calls),
        memory(work.bytes),
        UNKNOWN if work.flops is None else fmt.scaled(work.flops),
        UNKNOWN if work.intensity is None else fmt.intensity(work.intensity),
        least_text(each.seconds) or UNKNOWN,
        ", ".join(sets),
    )


def _sum(part: PartLeast) -> Text:
    name = fmt.one_line(f"{part.graph} {part.stage}")
    if part.seconds is None:
        return Text(f"{name}: no bound is known", style="dim")
    left = f", without {fmt.count(part.unknown, 'kernel')} of which it is not known" if part.unknown else ""
    return Text(f"{name}: with cold caches no run can take less than {least_text(part.seconds)}{left}")


def _notes(gpu: Gpu, parts: Sequence[PartLeast]) -> Iterator[RenderableType]:
    """Say what figures the bounds rest on, where those are from, and what can make a kernel quicker than its own."""
    speed = "bandwidth not known" if gpu.bandwidth is None else f"{gpu.bandwidth / 1e9:.0f} GB/s of memory"
    rates = [f"{rate / 1e12:.1f} TFLOP/s" for rate in peaks(tuple(parts))]
    arithmetic = f"; arithmetic at most {', '.join(rates)}" if rates else "; rates of arithmetic not known"
    yield Text(f"its peaks: {speed}{arithmetic}{sources_text(gpu)}", style="dim")
    cache = "a cache" if gpu.l2 is None else f"its L2 cache ({fmt.memory(gpu.l2)})"
    yield Text(f"a kernel whose data still lies in {cache} can be quicker than by its bytes", style="dim")


def sources_text(gpu: Gpu) -> str:
    """Write where the peaks are from, each source once."""
    known = list(
        dict.fromkeys(gpu.sources[name] for name in ("bandwidth", "rates", "vector_rates") if name in gpu.sources)
    )
    return f" (source: {fmt.one_line('; '.join(known), 200)})" if known else f" (see ctrace targets {gpu.target})"
