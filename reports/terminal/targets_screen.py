"""Screens of `ctrace targets`: the GPUs that `--target` accepts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.knowledge.gpus.gpu import TargetGpu
from ctrace.inspector.knowledge.gpus.gpu_table import Listed
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP, section

_UNKNOWN = "not known"
_NONE = "–"
_WIDE = 110
_WORDS = {
    "capability": "compute capability", "processors": "multiprocessors (SMs)", "registers": "registers per SM",
    "threads": "threads per SM", "shared": "shared memory per SM", "threads_per_block": "threads per block",
    "shared_per_block": "shared memory per block", "shared_per_block_optin": "shared memory per block, opt-in",
    "warp": "threads per warp", "memory": "memory", "l2": "L2 cache", "clock": "maximum clock",
    "bandwidth": "memory bandwidth",
}  # fmt: skip


def targets_screen(table: Sequence[Listed], width: int) -> Iterator[RenderableType]:
    """Show all GPUs, one per line."""
    wide = width >= _WIDE
    shown = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim", show_edge=False)
    columns = ["name", "title"] if wide else ["name"]
    numbers = ["capability", "SMs", "memory", "bandwidth", "L2", "fp32", "bf16", "fp8"]
    for column in columns:
        shown.add_column(column, overflow="ellipsis", no_wrap=True)
    for column in numbers if wide else [each for each in numbers if each not in ("L2", "fp8")]:
        shown.add_column(column, justify="right", overflow="ellipsis", no_wrap=True)
    for each in table:
        shown.add_row(*_row(each.gpu, wide=wide))
    yield shown
    matrix_columns = "bf16, fp8" if wide else "bf16"
    yield Text(f"T: peak operations per second, in 10^12, from the data sheet; {_NONE}: not known", style="dim")
    yield Text(f"fp32: vector units; {matrix_columns}: matrix units (Tensor Cores), dense", style="dim")
    for each in table:
        if each.file is not None:
            place = ", replaces the built-in one" if each.replaces else ""
            yield Text(
                f"{fmt.one_line(each.gpu.name, 60)}: from your {fmt.one_line(PurePath(each.file).name, 60)}{place}"
            )


def _row(gpu: TargetGpu, *, wide: bool) -> list[str]:
    name, l2, eight = fmt.one_line(gpu.name, 60), fmt.memory(gpu.l2), _operations(gpu.rates.get("float8"))
    bandwidth = _NONE if gpu.bandwidth is None else _bandwidth(gpu.bandwidth)
    before = [name, fmt.one_line(gpu.title, 40)] if wide else [name]
    speeds = [_operations(gpu.vector_rates.get("float32")), _operations(gpu.rates.get("bfloat16"))]
    facts = [_capability(gpu), str(gpu.processors), fmt.memory(gpu.memory), bandwidth]
    if wide:
        return [*before, *facts, l2, *speeds, eight]
    return [*before, *facts, *speeds]


def target_screen(listed: Listed, width: int) -> Iterator[RenderableType]:
    """Show all facts about a GPU, each with its source."""
    gpu = listed.gpu
    numbers: dict[str, int] = {}
    for source in gpu.sources.values():
        numbers.setdefault(source, len(numbers) + 1)
    yield Text.assemble((fmt.one_line(gpu.name, 60), "bold"), "  ", fmt.one_line(gpu.title, 200))
    if listed.file is not None:
        yield Text(f"from your {fmt.one_line(listed.file, 300)}", style="dim")
    yield _grid((word, _fact(gpu, fact), _mark(gpu, fact, numbers)) for fact, word in _WORDS.items())
    for title, fact, rates in (
        ("Peak operations per second: matrix units (Tensor Cores), dense", "rates", gpu.rates),
        ("Peak operations per second: vector units", "vector_rates", gpu.vector_rates),
    ):
        yield section(title)
        mark = _mark(gpu, fact, numbers)
        rows = [(fmt.one_line(name, 40), _operations(rate), mark) for name, rate in rates.items()]
        yield _grid(iter(rows or [("", _UNKNOWN, mark)]))
    yield section("Sources")
    yield _notes(numbers)


def _grid(rows: Iterator[tuple[str, str, str]]) -> Table:
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(min_width=28)
    grid.add_column(justify="right", min_width=14)
    grid.add_column(style="dim")
    for word, value, mark in rows:
        grid.add_row(f"  {word}", value, Text(mark))
    return grid


def _notes(numbers: Mapping[str, int]) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    for source, number in numbers.items():
        grid.add_row(Text(f"  [{number}]", style="dim"), Text(fmt.one_line(source, 500)))
    return grid


def _mark(gpu: TargetGpu, fact: str, numbers: Mapping[str, int]) -> str:
    if fact in gpu.sources:
        return f"[{numbers[gpu.sources[fact]]}]"
    return ""


def _fact(gpu: TargetGpu, fact: str) -> str:
    value = getattr(gpu, fact)
    if value is None:
        return _UNKNOWN
    if fact == "capability":
        return _capability(gpu)
    if fact == "clock":
        return f"{value / 1e6:.0f} MHz"
    if fact == "bandwidth":
        return _bandwidth(value)
    is_size = fact.startswith("shared") or fact in ("memory", "l2")
    if is_size:
        return fmt.memory(value)
    return str(value)


def _capability(gpu: TargetGpu) -> str:
    return ".".join(map(str, gpu.capability))


def _bandwidth(value: float) -> str:
    return f"{value / 1e9:.0f} GB/s"


def _operations(rate: float | None) -> str:
    """Write operations per second as `66.9 T`, always in units of 10^12, so that rows compare at a glance."""
    if rate is None:
        return _NONE
    return f"{rate / 1e12:.1f} T"
