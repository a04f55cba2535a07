"""Screens that compare the code of one program for several target GPUs.

Screens of `ctrace targets`: the GPUs that `--target` accepts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.diagnosis.side_by_side_document import SideBySideDocument
from ctrace.inspector.findings.fusion_view import FusedPart, FusionDocument
from ctrace.inspector.findings.kernels.built_view import Resources
from ctrace.inspector.findings.side_by_side import ComparedKernel, ComparedPart, One, SourceComparison
from ctrace.inspector.findings.target_gpu_view import NEEDS_DEVICE, question_place, question_sentence
from ctrace.inspector.knowledge.gpus.gpu_table import Listed, TargetGpu
from ctrace.inspector.session.summary import CodeTotals, FusionSummary
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP, MOST, WIDE, capped, columned, hanging, headline, item, more, section
from ctrace.reports.wording.kernels_wording import configuration_text, languages_text, least_text, spills_text

_UNKNOWN = "?"
_COLUMNS = ("kernel", "configuration", ">regs", ">spills", ">shared", ">occupancy", ">bound")
# Chosen: autotuning gives a kernel up to dozens, on each GPU.
_CONFIGURATIONS = 3
# Chosen: a kernel takes a row and one for each GPU.
_ROWS = 12
_CODES = {
    SourceComparison.SAME: "same code",
    SourceComparison.DIFFERS: "code differs",
    SourceComparison.LIBRARY: "library kernel",
    SourceComparison.NOT_EVERYWHERE: "missing on some",
    SourceComparison.NOT_KNOWN: "code not known",
}


def kernels_side_by_side(
    document: SideBySideDocument[Any], width: int, *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show the code of each kernel on each GPU, then the totals."""
    yield from _heads(document)
    for part in document.compared:
        yield section(f"{fmt.one_line(part.graph)} {part.stage}: {_sum(part, document.targets)}")
        shown = capped(part.kernels, _ROWS, all_of_it=all_of_it)
        yield columned(width, _COLUMNS, [row for each in shown for row in _rows(each, width, all_of_it=all_of_it)])
        yield from more(len(part.kernels), "kernel", "--all", most=len(shown), before="")
    yield from _ending(document, width)


def explained_side_by_side(document: SideBySideDocument[Any], width: int) -> Iterator[RenderableType]:
    """Show the kernels that differ between GPUs, then the totals."""
    yield from _heads(document)
    yield from _different(document.compared)
    yield from _ending(document, width)
    yield Text(f"\nKernel by kernel: ctrace kernels --target {fmt.one_line(','.join(document.targets))}", style="dim")


def fusions_side_by_side(document: SideBySideDocument[FusionDocument], width: int) -> Iterator[RenderableType]:
    """Show nodes, rounds and bytes of each graph part for each GPU."""
    yield from _heads(document)
    targets = document.targets
    found = {name: {(each.of.graph, each.of.stage): each for each in one.fusion} for name, one in targets.items()}
    rows: list[tuple[str, ...]] = []
    # A part may be generated for some of the GPUs only.
    for key in dict.fromkeys(key for of_one in found.values() for key in of_one):
        rows.append((f"{fmt.one_line(key[0])} {key[1]}", *[""] * 5))
        rows += [(f"  {fmt.one_line(name)}", *_fusion_cells(found[name].get(key))) for name in targets]
    if rows:
        yield Text()
        yield columned(width, ("graph part", "", ">nodes", ">after", ">rounds", ">bytes"), rows)
    yield Text(f"Kernels are generated, not run; bytes are computed. Times are {NEEDS_DEVICE}.", style="dim")


def _fusion_cells(part: FusedPart | None) -> tuple[str, ...]:
    if part is None:
        return ("no such graph part", "", "", "", "")
    rounds = sum(not each.reorder for each in part.of.rounds)
    memory = fmt.known(part.bytes, lambda known: fmt.memory(known.fused))
    return ("", str(part.of.before), str(part.of.after), str(rounds), memory)


def _heads(document: SideBySideDocument[Any]) -> Iterator[RenderableType]:
    """Show the verdict for each GPU, its sentence only once if all agree, and which GPUs could not be captured."""
    same = len({each.sentence for each in document.answers.values()}) == 1
    for number, each in enumerate(document.answers.values()):
        head = headline(each)
        # Its first two lines are the verdict and the sentence.
        yield Text("\n").join(head.split("\n")[2:]) if same and number else head
    for name, why in document.failed.items():
        yield Text(f"{fmt.one_line(name, 30)}: not captured: {fmt.one_line(why, 300)}", style="bold red")


def _sum(part: ComparedPart, targets: Iterable[str]) -> str:
    bounds = [f"{name} {_least(part, name)}" for name in targets]
    return fmt.one_line(f"lower bound with cold caches: {', '.join(bounds)}")


def _least(part: ComparedPart, name: str) -> str:
    if name not in part.least.seconds:
        return "has no such part"
    return least_text(part.least.seconds[name]) or _UNKNOWN


def _rows(each: ComparedKernel, width: int, *, all_of_it: bool) -> Iterator[tuple[str | Text, ...]]:
    """Yield a row that names the kernel, then a row for each configuration on each GPU."""
    yield (fmt.one_line(each.name), _CODES[each.code], *[""] * 5)
    for name, one in each.on.items():
        shown = capped(one.resources, _CONFIGURATIONS, all_of_it=all_of_it)
        known = [_configuration(found, width) for found in shown] or [_nothing(one)]
        for number, row in enumerate(known):
            # The bound is that of the kernel, whatever its configuration.
            least = (least_text(one.least) or _UNKNOWN) if not number else ""
            yield ("" if number else f"  {fmt.one_line(name, 30)}", *row, least)
        if len(shown) < len(one.resources):
            yield ("", f"and {len(one.resources) - len(shown)} more", *[""] * 5)


def _configuration(found: Resources, width: int) -> tuple[str | Text, ...]:
    built, occupancy = found.built, found.occupancy
    spills = Text(fmt.known(built.spills), style="bold red" if built.spills else "")
    share = fmt.known(occupancy and occupancy.share, "{:.0%}".format)
    cells = fmt.known(built.registers), spills, fmt.known(built.shared, fmt.memory), share
    return (configuration_text(built, short=width < WIDE), *cells)


def _nothing(one: One) -> tuple[str, ...]:
    """Return the row of a kernel that Triton did not compile; a library kernel has no such figures."""
    return ("", *["" if one.kernel.language == "external" else _UNKNOWN] * 4)


def _different(parts: tuple[ComparedPart, ...]) -> Iterator[RenderableType]:
    found = [(part, each) for part in parts for each in part.different]
    yield section("Kernels that differ between targets" if found else "All kernels are the same on all targets")
    for part, each in found[:MOST]:
        where = f"{part.graph} {part.stage}: {each.name}"
        if each.code is SourceComparison.NOT_EVERYWHERE:
            difference = f"only on {', '.join(each.on)}"
        else:
            difference = _CODES[each.code]
        yield item(Text.assemble(fmt.one_line(where, 100), (f"  {fmt.one_line(difference)}", "yellow")))
    yield from more(len(found), "kernel", "ctrace kernels")


_FACTS: tuple[tuple[str, Callable[[CodeTotals], str]], ...] = (
    ("graphs", lambda found: str(found.graphs)),
    ("kernels", languages_text),
    ("fusion", lambda found: _fused(found.fusion)),
    ("bytes", lambda found: _moved(found.fusion)),
    ("bound", lambda found: least_text(found.least) or _UNKNOWN),
    ("spills", spills_text),
    ("autotuning", lambda found: found.left_open or "none known"),
)


def _moved(found: FusionSummary | None) -> str:
    return fmt.known(found.moved if found else None, lambda moved: fmt.memory(moved.fused))


def _fused(found: FusionSummary | None) -> str:
    return fmt.known(found, lambda found: f"{fmt.count(found.before, 'node')} into {found.after}")


def _ending(document: SideBySideDocument[Any], width: int) -> Iterator[RenderableType]:
    """Show the totals, the program's queries about the device, and what the figures are based on."""
    yield section("Totals")
    yield _sums(document.totals, width)
    if document.asked:
        yield section("The program asks about the device")
    for each in document.asked[:MOST]:
        yield hanging(f"{question_place(each)}: {question_sentence(each)}")
    yield from more(len(document.asked), "question")
    basis = f"Kernels are generated, not run; bytes, occupancy and bounds are computed. Times are {NEEDS_DEVICE}."
    yield Text(f"\n{basis}", style="dim")


def _sums(found: Mapping[str, CodeTotals], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False, width=width)
    table.add_column("", style="dim", no_wrap=True, width=max(len(name) for name, _ in _FACTS))
    for name in found:
        table.add_column(fmt.one_line(name, 30), ratio=1)
    for name, fact in _FACTS:
        table.add_row(name, *(Text(fmt.one_line(fact(each))) for each in found.values()))
    return table


_NOT_KNOWN = "not known"
_NONE = "–"
# Width from which the title, L2 and fp8 fit beside the other columns.
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
    bandwidth = fmt.known(gpu.bandwidth, fmt.gigabytes, _NONE)
    before = [name, fmt.one_line(gpu.title, 40)] if wide else [name]
    speeds = [_operations(gpu.vector_rates.get("float32")), _operations(gpu.rates.get("bfloat16"))]
    facts = [_capability(gpu), str(gpu.processors), fmt.memory(gpu.memory), bandwidth]
    if wide:
        return [*before, *facts, l2, *speeds, eight]
    return [*before, *facts, *speeds]


def target_screen(listed: Listed) -> Iterator[RenderableType]:
    """Show all facts about a GPU, each with its source."""
    gpu = listed.gpu
    numbers: dict[str, int] = {}
    for source in gpu.sources.values():
        # Most facts are of one data sheet.
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
        yield _grid(iter(rows or [("", _NOT_KNOWN, mark)]))
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
        return _NOT_KNOWN
    if fact == "capability":
        return _capability(gpu)
    if fact == "clock":
        return f"{value / 1e6:.0f} MHz"
    if fact == "bandwidth":
        return fmt.gigabytes(value)
    is_size = fact.startswith("shared") or fact in ("memory", "l2")
    if is_size:
        return fmt.memory(value)
    return str(value)


def _capability(gpu: TargetGpu) -> str:
    return ".".join(map(str, gpu.capability))


def _operations(rate: float | None) -> str:
    """Write operations per second as `66.9 T`, always in units of 10^12, so that rows compare at a glance."""
    return fmt.known(rate, lambda known: f"{known / 1e12:.1f} T", _NONE)
