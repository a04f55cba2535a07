"""Screen of `ctrace graphs`: each graph's stages, inputs, outputs, and tensors saved for the backward."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.findings.graphs.fx import counted
from ctrace.inspector.findings.graphs.graph_lines import GraphInput
from ctrace.inspector.findings.graphs.graph_summary import (
    Changed,
    Overview,
    Result,
    SavedByForward,
    SavedTensor,
    Shares,
    StageRow,
)
from ctrace.inspector.findings.graphs.graphs_document import GraphsDocument
from ctrace.inspector.findings.graphs.passes_view import PassRun
from ctrace.reports import format as fmt
from ctrace.reports.terminal.node_screen import attention_item
from ctrace.reports.terminal.widgets import MOST, capped, item, labelled, more
from ctrace.reports.wording.graphs_wording import counts_text, depends_text, place_text, type_text

_TOP = 6
"""How many ops a line names."""
_BIGGEST = 5
"""How many saved tensors to list for a graph."""
# Chosen: one line.
_OUTPUTS = 4
_PLACE = 30
"""How many letters a place may have in a narrow column."""
_PARAMETERS = ("parameter", "buffer")
_SHARES = {
    Shares.VIEW_OF_MADE: "a view of a result",
    Shares.VIEW_OF_MADE_SAVED: "a view of a result",
    Shares.VIEW_OF_OUTPUT: "a view of another output",
}


def graphs_screen(document: GraphsDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show each graph."""
    found = document.graphs
    if not found:
        yield Text("\nNo graphs: torch printed none in this run.", style="dim")
        return
    shown = capped(found, MOST, all_of_it=all_of_it)
    for each in shown:
        yield from _graph(each, document.cwd, width, all_of_it=all_of_it)
    yield from more(len(found), "graph", "--all", most=len(shown), before="\n")
    one = found[0].each
    which = fmt.when(len(found) > 1, f" --graph {one.id}")
    yield Text(f"\nNode by node: ctrace graphs --stage {one.usual().label}{which}", style="dim")


def _graph(view: Overview, cwd: str, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    at = view.each.compilation
    place = fmt.place(at.file, view.each.line, cwd)
    yield Text.assemble("\n", (f"{view.each.id}  {fmt.plain(at.function)}", "bold"), (f"  {place}", "dim"))
    yield _stages(view.rows, width, all_of_it=all_of_it)
    for name, value in _facts(view):
        yield _fact(name, value)
    if view.kept is not None:
        yield from _kept(view.kept, view, cwd, width, all_of_it=all_of_it)
    yield from _passed(view.passes)
    yield from (attention_item(each, cwd) for each in view.attention)
    for note in view.notes:
        yield item(Text(fmt.one_line(note), style="yellow"))


def _passed(found: tuple[PassRun, ...]) -> Iterator[RenderableType]:
    changed = [each.title for run in found for each in run.changed]
    idle = sum(len(run.idle) for run in found)
    if changed:
        names = [f"{name}{fmt.repeated(times, ' ×')}" for name, times in Counter(changed).items()]
        shown = fmt.listed((fmt.one_line(name, 40) for name in names), MOST)
        yield _fact("passes", f"{shown}; {idle} changed nothing (see --passes)")


def _stages(rows: tuple[StageRow, ...], width: int, *, all_of_it: bool) -> RenderableType:
    # A stage before its passes is of use only beside the one behind them.
    shown = [row for row in rows if all_of_it or not row.staged.label.startswith("before_")]
    name = max((len(row.staged.label) for row in shown), default=0)
    text = Text(f"{'stage':<{name}}  nodes   ops  most frequent ops", style="dim")
    for row in shown:
        head = f"\n{row.staged.label:<{name}}  {row.nodes:>5}  {row.ops:>4}  "
        most = _most(row)
        most.truncate(max(width - len(head), 10), overflow="ellipsis")
        text = Text.assemble(text, head, most)
    return item(text)


def _most(row: StageRow) -> Text:
    if row.same_as:
        # The stage before its own passes is not in the table, so its name would say nothing.
        is_own = row.same_as == f"before_{row.staged.label}"
        return Text("its passes changed nothing" if is_own else f"the same as {row.same_as}", style="dim")
    return Text(counts_text(row.counts, _TOP))


def _facts(view: Overview) -> Iterator[tuple[str, str]]:
    yield "inputs", _inputs(view.inputs)
    if view.changed is None:
        yield "mutated", "not known: the log has no entry of AOTAutograd"
    elif view.changed:
        yield "mutated", fmt.listed(map(_change, view.changed), MOST)
    yield "outputs", fmt.listed((_result(each, view.each.values) for each in view.results), _OUTPUTS) or "none"


def _inputs(inputs: tuple[GraphInput, ...]) -> str:
    own = [each for each in inputs if each.role not in _PARAMETERS]
    named = [f"{fmt.one_line(each.name, 60)}{_typed(each)}" for each in own]
    counts = [fmt.count(number, role) for role in _PARAMETERS if (number := sum(each.role == role for each in inputs))]
    return fmt.joined(", ", fmt.listed(named, MOST), *counts) or "none"


def _typed(each: GraphInput) -> str:
    if each.node.type is not None:
        return f" {type_text(each.node.type)}"
    if each.node.symbol:
        return f" (number {fmt.one_line(each.node.symbol)})"
    return ""


def _change(each: Changed) -> str:
    role = fmt.when(each.role in _PARAMETERS, f" ({each.role})")
    what = "its sizes or strides"
    if each.data:
        what = "in place"
    return f"{fmt.one_line(each.name, 60)}{role} {what}"


def _result(each: Result, values: Mapping[str, str]) -> str:
    type_ = f" {type_text(each.node.type, values)}" if each.node and each.node.type else ""
    text = f"{fmt.one_line(each.text, 40)}{type_}"
    if each.base:
        return f"{text} ({'is' if each.shares is Shares.INPUT else 'a view of'} {fmt.one_line(each.base, 60)})"
    if each.shares in _SHARES:
        return f"{text} ({_SHARES[each.shares]})"
    return text


def _fact(name: str, value: str) -> RenderableType:
    return labelled(name, value, 10)


def _kept(kept: SavedByForward, view: Overview, cwd: str, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    yield _fact("saved", _kept_words(kept, view))
    made = [each for each in kept.saved if each.is_made]
    # Inputs are alive without being saved: only what the forward made costs memory.
    shown = made[:_BIGGEST]
    if all_of_it:
        shown = list(kept.saved)
    if shown:
        yield item(_biggest(shown, view.each.values, cwd, width))
    yield from more(len(made), "", "--all", most=len(shown), before=" " * 13)
    if view.recomputed is not None and (view.recomputed.nodes or view.recomputed.views):
        names = counts_text(counted(view.recomputed.nodes), _TOP)
        views = fmt.framed(" (", fmt.some(view.recomputed.views, "view"), " too)")
        if names:
            ops = f"{fmt.count(len(view.recomputed.nodes), 'op')} of the forward: {names}"
        else:
            ops = "no op of the forward"
        yield _fact("recomputed", f"in the backward: {ops}{views}")


def _kept_words(kept: SavedByForward, view: Overview) -> str:
    """Summarize the saved tensors: how many the forward made, and how many are inputs."""
    made = [each for each in kept.saved if each.is_made]
    numbers = sum(each.memory is None for each in kept.saved)
    there = len(kept.saved) - len(made) - numbers
    size = ""
    if made:
        depends = depends_text(kept.symbols, view.each.graphs.symbols)
        size = f", {fmt.known(kept.made, fmt.memory, 'size not known')}{depends}"
    return fmt.joined(
        "; ",
        f"for the backward: {fmt.count(len(made), 'intermediate tensor')}{size}",
        fmt.some(there, "input or view of an input", "inputs or views of inputs"),
        fmt.some(numbers, "number"),
    )


def _biggest(saved: list[SavedTensor], values: Mapping[str, str], cwd: str, width: int) -> RenderableType:
    named = [_named(each, values) for each in saved]
    column = max(map(len, named))
    lines = []
    for each, name in zip(saved, named, strict=True):
        size = "?" if each.memory is None else fmt.known(each.memory.bytes, fmt.memory)
        line = Text.assemble(f"{size:>10}  {name:<{column}}  ", (_where(each, cwd), "dim"))
        line.truncate(width - 1, overflow="ellipsis")
        lines.append(line)
    return Text("\n").join(lines)


def _named(each: SavedTensor, values: Mapping[str, str]) -> str:
    type_ = each.node.type
    return f"{fmt.one_line(each.node.name, 24)} {type_text(type_, values) if type_ else ''}"


def _where(each: SavedTensor, cwd: str) -> str:
    """Name the source line that made the saved memory, and what else the memory is used for."""
    words = [place_text(each.at, cwd, _PLACE) if each.at else "no source line"]
    if each.root is not each.node:
        words.insert(0, f"view of {fmt.one_line(each.root.name, 24)},")
    if each.is_returned:
        words.insert(0, "also an output,")
    return " ".join(words)
