"""Screen of `ctrace shapes`: which sizes are static or dynamic, why, and how to keep them dynamic."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.shape_facts import SizeCondition, Unbacked
from ctrace.inspector.findings.shape_view import (
    FunctionShapes,
    Sized,
    SizedTensor,
    range_words,
    short,
    telling,
)
from ctrace.inspector.findings.shapes_document import Mark, ShapesDocument
from ctrace.inspector.grouping import grouped
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP, capped, indented, item, more, section

# As many graphs as torch keeps for a function by default (2.13, _dynamo/config.py: recompile_limit).
_MOST_SIZES = 8
# Chosen, as are the next two: the conditions that tell most come first, and functions share a page.
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
    newest = fmt.repeated(each.graphs, ", the newest of ")
    failed = fmt.framed(" · failed: ", fmt.plain(shaped.fail_type or ""))
    head = section(fmt.plain(shaped.function))
    head.append(f"  {fmt.place(shaped.file, shaped.line, cwd)} · graph {shaped.compilation}{newest}{failed}", "dim")
    yield head
    shown = [sized for sized in each.tensors if everything or sized.is_shown]
    telling_ones = [sized for sized in shown if not sized.is_dull]
    first = capped(telling_ones, _MOST_TENSORS, all_of_it=everything)
    for sized in first:
        yield item(Group(*_tensor(sized, cwd, everything=everything, complete=shaped.complete)))
    yield from more(len(telling_ones), "tensor", "--all", most=len(first), before=" ")
    yield from _dull([sized for sized in shown if sized.is_dull], everything=everything)
    hidden = len(each.tensors) - len(shown)
    if dull := fmt.some(hidden, "static parameter or buffer", "static parameters and buffers"):
        yield item(Text(f"{dull}: see --all", style="dim"))
    yield from _unbacked(shaped.unbacked, cwd)
    yield from _required(shaped.needed, cwd)
    yield from _earlier(each)


def _tensor(each: SizedTensor, cwd: str, *, everything: bool, complete: bool) -> Iterator[RenderableType]:
    if each.tensor.role == "number":
        example = f"= {each.dims[0].dim.size}"
    elif complete:
        example = _sizes(each)
    else:
        example = _some_sizes(each)
    role = fmt.when(each.tensor.role not in ("input", "number"), f" · {each.tensor.role}")
    facts = f"  {fmt.plain(f'{each.tensor.dtype} {example}'.strip())}{role}"
    yield Text.assemble((fmt.one_line(each.tensor.name, 60), "bold"), (facts, "dim"))
    rows = Table.grid(padding=(0, GAP, 0, 0))
    rows.add_column(min_width=1, style="dim")
    rows.add_column(min_width=_NARROWEST, max_width=_WIDEST, overflow="fold")
    rows.add_column(overflow="fold")
    for sized in each.dims:
        at = fmt.known(sized.dim.index, otherwise="")
        style = "cyan"
        if sized.one_graph_each or sized.dim.fixed:
            style = "yellow"
        rows.add_row(at, Text(fmt.one_line(short(sized.dim), 120), style=style), _reasons(sized, cwd, everything))
    yield indented(rows, 3)


def _reasons(sized: Sized, cwd: str, everything: bool) -> Text:
    """Write on separate lines why a dimension is as it is, its sizes, what fixed it, and the conditions on it."""
    dim = sized.dim
    lines = [Text(fmt.one_line(fmt.joined("; ", sized.why, _took(sized))))]
    if dim.fixed is not None:
        lines.append(_condition(dim.fixed, dim.fixed.why, cwd))
    shown = dim.conditions
    if not everything:
        shown = telling(dim)[:_MOST_CONDITIONS]
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
    code = fmt.when(condition.source not in text, condition.source)
    return Text.assemble(fmt.one_line(text, 300), (_place_and_code(condition.file, condition.line, code, cwd), "dim"))


def _place_and_code(file: str | None, line: int | None, code: str, cwd: str) -> str:
    """Write where something is, and the code there, as far as they are known."""
    where = fmt.framed("  ", fmt.place(file, line, cwd))
    return f"{where}{fmt.framed('  `', fmt.one_line(code, 80), '`')}"


def _sizes(each: SizedTensor) -> str:
    return f"[{', '.join(sized.dim.size or '?' for sized in each.dims)}]"


def _some_sizes(each: SizedTensor) -> str:
    """Write the sizes of a tensor of which torch recorded no static ones, and so not how many dimensions it has."""
    known = {sized.dim.index: sized.dim.size for sized in each.dims if sized.dim.index is not None}
    return f"[{', '.join(known.get(at) or '?' for at in range(max(known, default=-1) + 1))}, …]"


def _dull(tensors: list[SizedTensor], *, everything: bool) -> Iterator[RenderableType]:
    """List plain static tensors, grouped by the reason."""
    by_policy = grouped(tensors, lambda each: each.dims[0].dim.policy if each.dims else None)
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
        name, sizes = (fmt.plain(each.symbol), "bold"), f"  data-dependent, {range_words(each.low, each.high)}"
        yield item(Text.assemble(name, sizes, (_place_and_code(each.file, each.line, each.source, cwd), "dim")))


def _required(found: tuple[SizeCondition, ...], cwd: str) -> Iterator[RenderableType]:
    for each in found:
        where = (_place_and_code(each.file, each.line, "", cwd), "dim")
        yield item(Text.assemble((fmt.one_line(each.why, 300), "yellow"), where))


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
            yield indented(Text("\n".join(_folded(fmt.plain(line), width - _INDENT)), style="green"), _INDENT)


# Lines to paste are indented as other parts of a finding are.
_INDENT = 3
_SETTING = "TORCH_COMPILE_DYNAMIC_SOURCES="


def _folded(line: str, width: int) -> Iterator[str]:
    """Break a long setting after commas with a backslash; the terminal wraps other lines."""
    rest = line
    # One column is left for the backslash.
    while line.startswith(_SETTING) and len(rest) > width and (comma := rest.rfind(",", 0, width - 1)) > 0:
        yield f"{rest[: comma + 1]}\\"
        rest = rest[comma + 1 :]
    yield rest
