"""Screen of the lower bounds on kernel run time on the target GPU, and what sets each bound."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.bounds import Least, PartLeast, bounds, peaks
from ctrace.inspector.findings.kernels.kernel_view import PartKernels
from ctrace.inspector.findings.target_view import NEEDS_DEVICE, target_of
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import WIDE, capped, columned, section
from ctrace.reports.wording.kernels_wording import UNKNOWN, memory
from ctrace.reports.wording.target_wording import least_text

_ROWS = 12
_LAUNCH = 1e-6
"""Seconds that every launch takes at least: CUDA needs a few microseconds, so a smaller bound decides nothing."""
_COLUMNS = ("kernel", ">calls", ">bytes", ">FLOPs", ">FLOP/B", ">bound", "set by")
_SHORT = {"memory": "memory", "arithmetic": "FLOPs"}


def bounds_screen(
    session: Session, found: tuple[PartKernels, ...], width: int, *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show the lower bounds of graph parts on the target GPU."""
    gpu, parts = target_of(session), bounds(session, found)
    if gpu is None or not parts:
        return
    yield section(f"Lower bounds on run time on {fmt.one_line(gpu.target, 30)}, computed; times {NEEDS_DEVICE}")
    shown = {id(part): capped(part.kernels, _ROWS, all_of_it=all_of_it) for part in parts}
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
    if any(each.seconds is not None and each.seconds < _LAUNCH for part in parts for each in part.kernels):
        yield Text("Launching a kernel takes longer than a bound below 1 µs: the launch decides there.", style="dim")
    yield from _notes(gpu, parts)


def _row(each: Least, width: int) -> tuple[str, ...]:
    work = each.row.work
    sets = each.sets if width >= WIDE else [_SHORT[one] for one in each.sets]
    flops = UNKNOWN if work.flops is None else fmt.scaled(work.flops)
    intensity = UNKNOWN if work.intensity is None else fmt.intensity(work.intensity)
    return (
        fmt.one_line(each.row.label),
        str(each.row.kernel.calls),
        memory(work.bytes),
        flops,
        intensity,
        least_text(each.seconds) or UNKNOWN,
        ", ".join(sets),
    )


def _sum(part: PartLeast) -> Text:
    name = fmt.one_line(f"{part.graph} {part.stage}")
    if part.seconds is None:
        return Text(f"{name}: bound not known", style="dim")
    left = f", not counting {fmt.count(part.unknown, 'kernel')} without a known bound" if part.unknown else ""
    return Text(f"{name}: at least {least_text(part.seconds)} with cold caches{left}")


def _notes(gpu: Gpu, parts: Sequence[PartLeast]) -> Iterator[RenderableType]:
    """Show the peaks behind the bounds, their sources, and why a kernel can beat its bound."""
    speed = "bandwidth not known" if gpu.bandwidth is None else f"{gpu.bandwidth / 1e9:.0f} GB/s memory bandwidth"
    rates = [f"{rate / 1e12:.1f} TFLOP/s" for rate in peaks(tuple(parts))]
    arithmetic = f", {', '.join(rates)} arithmetic" if rates else ", arithmetic rate not known"
    yield Text(f"Peaks: {speed}{arithmetic}{sources_text(gpu)}", style="dim")
    cache = "a cache" if gpu.l2 is None else f"its L2 cache ({fmt.memory(gpu.l2)})"
    yield Text(f"A kernel whose data is already in {cache} can be faster than its memory bound.", style="dim")


def sources_text(gpu: Gpu) -> str:
    """Name the sources of the peaks, each once."""
    known = list(
        dict.fromkeys(gpu.sources[name] for name in ("bandwidth", "rates", "vector_rates") if name in gpu.sources)
    )
    if known:
        return f" (source: {fmt.one_line('; '.join(known), 200)})"
    return f" (see ctrace targets {gpu.target})"
