"""Screen of `ctrace shapes`: which sizes are static or dynamic, why, and how to keep them dynamic."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.shape_facts import DimPolicy, SizeCondition, Unbacked
from ctrace.inspector.findings.shape_view import (
    FunctionShapes,
    Sized,
    SizedTensor,
    range_words,
    short,
    telling,
)
from ctrace.inspector.findings.shapes_document import Mark, ShapesDocument
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP, item, section

_MOST_SIZES = 8
_MOST_CONDITIONS = 3
_MOST_EARLIER = 6
_MOST_TENSORS = 20
_NARROWEST, _WIDEST = 12, 26
"""The width of the column before the reason."""


def shapes_screen(document: ShapesDocument, width: int, *, everything: bool = False) -> Iterator[RenderableType]:
    """Show each function's newest graph, what differed in earlier ones, and lines to paste."""
    found = document.functions
    for sentence in document.violations:
        yield Padding(Text(f"! {fmt.one_line(sentence, 900)}", style="red"), (1, 0, 0, 0))
    for each in found:
        yield from _function(each, document.cwd, everything=everything)
    if not found:
        yield Text("\nNo sizes known: nothing was compiled, or an older ctrace wrote this run.", style="dim")
    if any(not each.latest.complete for each in found):
        yield Text(
            "\ntorch alone wrote this log: it records sizes that were dynamic at first, but no static ones.",
            style="dim",
        )
    yield from _marks(document.marks, width)


def _function(each: FunctionShapes, cwd: str, *, everything: bool) -> Iterator[RenderableType]:
    shaped = each.latest
    newest = f", the newest of {each.graphs}" if each.graphs > 1 else ""
    failed = f" · failed: {fmt.plain(shaped.fail_type)}" if shaped.fail_type else ""
    head = section(fmt.plain(shaped.function))
    head.append(f"  {fmt.place(shaped.file, shaped.line, cwd)} · graph {shaped.compilation}{newest}{failed}", "dim")
    yield head
    shown = [sized for sized in each.tensors if everything or sized.is_shown]
    most = len(shown) if everything else _MOST_TENSORS
    telling_ones = [sized for sized in shown if not sized.is_dull]
    for sized in telling_ones[:most]:
        yield item(Group(*_tensor(sized, cwd, everything=everything, complete=shaped.complete)))
    if len(telling_ones) > most:
        yield item(Text(f"and {fmt.count(len(telling_ones) - most, 'more tensor')}: see --all", style="dim"))
    yield from _dull([sized for sized in shown if sized.is_dull], everything=everything)
    if hidden := len(each.tensors) - len(shown):
        yield item(
            Text(
                f"{fmt.count(hidden, 'static parameter or buffer', 'static parameters and buffers')}: see --all",
                style="dim",
            )
        )
    yield from _unbacked(shaped.unbacked, cwd)
    yield from _required(shaped.needed, cwd)
    yield from _earlier(each)


def _tensor(each: SizedTensor, cwd: str, *, everything: bool, complete: bool) -> Iterator[RenderableType]:
    sizes = _sizes(each) if complete else _some_sizes(each)
    example = f"= {each.dims[0].dim.size}" if each.tensor.role == "number" else sizes
    role = "" if each.tensor.role in ("input", "number") else f" · {each.tensor.role}"
    facts = f"  {fmt.plain(f'{each.tensor.dtype} {example}'.strip())}{role}"
    yield Text.assemble((fmt.one_line(each.tensor.name, 60), "bold"), (facts, "dim"))
    rows = Table.grid(padding=(0, GAP, 0, 0))
    rows.add_column(min_width=1, style="dim")
    rows.add_column(min_width=_NARROWEST, max_width=_WIDEST, overflow="fold")
    rows.add_column(overflow="fold")
    for sized in each.dims:
        at = "" if sized.dim.index is None else str(sized.dim.index)
        style = "yellow" if sized.one_graph_each or sized.dim.fixed else "cyan"
        rows.add_row(at, Text(fmt.one_line(short(sized.dim), 120), style=style), _reasons(sized, cwd, everything))
    yield Padding(rows, (0, 0, 0, 3))


def _reasons(sized: Sized, cwd: str, everything: bool) -> Text:
    """Write on separate lines why a dimension is as it is, its sizes, what fixed it, and the conditions on it."""
    dim = sized.dim
    lines = [Text(fmt.one_line("; ".join(part for part in (sized.why, _took(sized)) if part)))]
    if dim.fixed is not None:
        lines.append(_condition(dim.fixed, dim.fixed.why, cwd))
    shown = dim.conditions if everything else telling(dim)[:_MOST_CONDITIONS]
    lines += [_condition(each, f"only where {each.text}", cwd) for each in shown]
    if left := len(dim.conditions) - len(shown):
        lines.append(Text(f"and {fmt.count(left, 'more condition')}: see --all", style="dim"))
    return Text("\n").join(line for line in lines if line)


def _took(sized: Sized) -> str:
    if len(sized.took) < 2:
        return ""
    values = f"values {fmt.listed(map(fmt.plain, sized.took), _MOST_SIZES)}"
    if sized.one_graph_each:
        return f"{values}: one graph each"
    return values


def _condition(condition: SizeCondition, text: str, cwd: str) -> Text:
    where = f"  {fmt.place(condition.file, condition.line, cwd)}" if condition.file else ""
    code = f"  `{fmt.one_line(condition.source, 80)}`" if condition.source and condition.source not in text else ""
    return Text.assemble(fmt.one_line(text, 300), (f"{where}{code}", "dim"))


def _sizes(each: SizedTensor) -> str:
    return f"[{', '.join(sized.dim.size or '?' for sized in each.dims)}]"


def _some_sizes(each: SizedTensor) -> str:
    """Write the sizes of a tensor of which torch recorded no static ones, and so not how many dimensions it has."""
    known = {sized.dim.index: sized.dim.size for sized in each.dims if sized.dim.index is not None}
    return f"[{', '.join(known.get(at) or '?' for at in range(max(known, default=-1) + 1))}, …]"


def _dull(tensors: list[SizedTensor], *, everything: bool) -> Iterator[RenderableType]:
    """List plain static tensors, grouped by the reason."""
    by_policy: dict[DimPolicy | None, list[SizedTensor]] = {}
    for each in tensors:
        by_policy.setdefault(each.dims[0].dim.policy if each.dims else None, []).append(each)
    for policy, alike in by_policy.items():
        names = (
            f"{fmt.one_line(each.tensor.name, 60)} [{', '.join(sized.dim.size for sized in each.dims)}]"
            for each in alike
        )
        reason = f" ({alike[0].dims[0].why})" if policy is not None else " (no dimensions)"
        listed = fmt.listed(names, len(alike) if everything else _MOST_SIZES)
        yield item(Text.assemble(("static", "cyan"), f"{reason}: ", listed))


def _unbacked(found: tuple[Unbacked, ...], cwd: str) -> Iterator[RenderableType]:
    for each in found:
        where = f"  {fmt.place(each.file, each.line, cwd)}" if each.file else ""
        code = f"  `{fmt.one_line(each.source, 80)}`" if each.source else ""
        name = fmt.plain(each.symbol)
        yield item(
            Text.assemble(
                (name, "bold"), f"  data-dependent, {range_words(each.low, each.high)}", (f"{where}{code}", "dim")
            )
        )


def _required(found: tuple[SizeCondition, ...], cwd: str) -> Iterator[RenderableType]:
    for each in found:
        where = f"  {fmt.place(each.file, each.line, cwd)}" if each.file else ""
        yield item(Text.assemble((fmt.one_line(each.why, 300), "yellow"), (where, "dim")))


def _earlier(each: FunctionShapes) -> Iterator[RenderableType]:
    for before in each.earlier[:_MOST_EARLIER]:
        listed = fmt.listed((fmt.one_line(text, 100) for text in before.differences), 5)
        yield item(Text(f"earlier graph {before.compilation}: {listed}", style="dim"))
    if (left := len(each.earlier) - _MOST_EARLIER) > 0:
        yield item(Text(f"and {fmt.count(left, 'more earlier graph')} with other sizes: see --json", style="dim"))


def _marks(offered: tuple[Mark, ...], width: int) -> Iterator[RenderableType]:
    if not offered:
        return
    yield section("To keep sizes dynamic")
    for note in dict.fromkeys(mark.note for mark in offered):
        lines = [mark.line for mark in offered if mark.note == note and mark.line]
        if lines:
            yield item(Text(fmt.plain(f"{note}:"), style="dim"))
        else:
            yield item(Text(fmt.plain(note)))
        for line in lines:
            yield Padding(Text("\n".join(_folded(fmt.plain(line), width - _INDENT)), style="green"), (0, 0, 0, _INDENT))


_INDENT = 3
_SETTING = "TORCH_COMPILE_DYNAMIC_SOURCES="


def _folded(line: str, width: int) -> Iterator[str]:
    """Break a long setting after commas with a backslash; the terminal wraps other lines."""
    rest = line
    while line.startswith(_SETTING) and len(rest) > width and (comma := rest.rfind(",", 0, width - 1)) > 0:
        yield f"{rest[: comma + 1]}\\"
        rest = rest[comma + 1 :]
    yield rest
