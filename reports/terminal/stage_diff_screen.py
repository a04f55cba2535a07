"""Screen of `ctrace graphs --diff`: how one stage differs from another.

`--passes` shows what each pass changed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.facts.passes import Pass, Pattern
from ctrace.inspector.findings.graphs.fx import op_name
from ctrace.inspector.findings.graphs.graphs_document import PassesDocument, StageDiffDocument
from ctrace.inspector.findings.graphs.passes_view import PassRun
from ctrace.inspector.findings.graphs.stage_diff import GoneNode, LineChange, LineLowered, StageDiff, WhyGone, totals
from ctrace.reports import format as fmt
from ctrace.reports.terminal.node_screen import line_title, node_line, places
from ctrace.reports.terminal.widgets import capped, hanging, indented, item, more, section
from ctrace.reports.wording.graphs_wording import call_text, counts_text, result_text

_WHY = {
    WhyGone.MOVED: "moved to the backward",
    WhyGone.DUPLICATE: "duplicates",
    WhyGone.VIEW: "views",
    WhyGone.UNUSED: "unused",
    WhyGone.OTHER: "",
}
_ONE = {WhyGone.MOVED: "moved to the backward", WhyGone.VIEW: "a view", WhyGone.UNUSED: "unused"}
# Chosen: each line of source takes three or four lines of the screen.
_MOST_LINES = 25
# Chosen, as is the next one: what one pass changed is one line, and its patterns follow.
_OPS = 6
_PATTERNS = 4
_SUBSYSTEMS = {
    "pre_grad_passes": "pre-grad passes",
    "joint_graph_passes": "joint passes",
    "post_grad_passes": "post-grad passes",
}


def diff_screen(document: StageDiffDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show what changed, by source line."""
    each, diff, cwd = document.each, document.diff, document.cwd
    at = each.compilation
    head = f"{each.id}  {fmt.plain(at.function)}  {diff.before.label} → {diff.after.label}"
    yield Text.assemble((head, "bold"), (f"  {fmt.place(at.file, each.line, cwd)}", "dim"))
    if diff.is_lowering:
        yield from _lowering(diff, cwd, width, all_of_it=all_of_it)
    else:
        yield from _changes(diff, cwd, width, all_of_it=all_of_it)
    if document.runs:
        yield section("Passes in between")
        yield from passes_lines(document.runs, cwd)


def _lowering(diff: StageDiff, cwd: str, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    changed = [line for line in diff.lowered if line.before or line.after]
    same = len(diff.lowered) - len(changed)
    decomposed = sum(bool(line.before and line.after) for line in changed)
    changes = f"{fmt.count(decomposed, 'line') if decomposed else 'No line'} decomposed into other ops"
    yield Text(f"{changes}, {fmt.count(same, 'line')} with the same ops." if same else f"{changes}.")
    shown = capped(changed, _MOST_LINES, all_of_it=all_of_it)
    for line in shown:
        yield line_title(line.at, cwd)
        yield from _lowered(line, width, all_of_it=all_of_it)
    yield from more(len(changed), "line", "--all", most=len(shown), before="\n")


def _lowered(line: LineLowered, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    before, after = counts_text(line.before), counts_text(line.after)
    if before and after:
        yield indented(Text.assemble((before, "red"), "  became  ", (after, "green")), 3)
    elif after:
        yield indented(Text.assemble("added  ", (after, "green")), 3)
    else:
        yield indented(Text.assemble((before, "red"), "  gone from this line"), 3)
    if line.same:
        yield indented(Text(f"unchanged: {counts_text(line.same)}", style="dim"), 3)
    if all_of_it:
        for node in line.nodes:
            yield node_line(node.name, call_text(node), result_text(node), width)


def _changes(diff: StageDiff, cwd: str, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    changed = [line for line in diff.changes if line.is_change]
    yield from _totals(diff)
    shown = capped(changed, _MOST_LINES, all_of_it=all_of_it)
    for line in shown:
        yield line_title(line.at, cwd)
        yield from _change(line, width, all_of_it=all_of_it)
    yield from more(len(changed), "line", "--all", most=len(shown), before="\n")


def _totals(diff: StageDiff) -> Iterator[RenderableType]:
    gone, new, other = totals(diff.changes)
    same = sum(line.same for line in diff.changes)
    args = sum(len(line.other_args) for line in diff.changes)
    if not (gone or new or other):
        yield Text(f"No change: all {same + args} nodes are the same.")
        return
    yield Text(
        f"{gone.total()} nodes removed, {new.total()} added, {other.total()} with another op; {same + args} kept"
        + (f", {args} of them with new arguments." if args else ".")
    )
    for name, counts in (("removed", gone), ("added", new), ("changed", other)):
        if counts:
            yield item(Text.assemble((f"{name:<8} ", "dim"), counts_text(counts.most_common(), 12)))
    why = Counter(each.why for line in diff.changes for each in line.gone)
    reasons = [f"{times} {_WHY[reason]}" for reason, times in why.most_common() if _WHY[reason]]
    if reasons:
        yield item(Text.assemble(("why gone ", "dim"), ", ".join(reasons)))


def _change(line: LineChange, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    if all_of_it:
        yield from _nodes(line, width)
        return
    for reason in WhyGone:
        gone = Counter(op_name(each.node) for each in line.gone if each.why is reason)
        if gone:
            note = fmt.framed("  (", _WHY[reason], ")")
            yield indented(Text.assemble("- ", (counts_text(gone.most_common(), 12), "red"), (note, "dim")), 3)
    if line.new:
        new = Counter(op_name(each.node) for each in line.new)
        note = "  (constants)" if line.is_constant else ""
        yield indented(Text.assemble("+ ", (counts_text(new.most_common(), 12), "green"), (note, "dim")), 3)
    if line.other_op:
        other = Counter(f"{op_name(each.was)} → {fmt.short_op(op_name(each.now))}" for each in line.other_op)
        yield indented(Text.assemble("~ ", counts_text(other.most_common(), 12)), 3)


def _nodes(line: LineChange, width: int) -> Iterator[RenderableType]:
    for each in line.gone:
        yield node_line(each.node.name, f"{call_text(each.node)}{_reason(each)}", "", width, "-")
    for new in line.new:
        yield node_line(new.node.name, call_text(new.node), result_text(new.node), width, "+")
    for other in (*line.other_op, *line.other_args):
        yield node_line(other.now.name, f"{call_text(other.was)}  ⇒  {call_text(other.now)}", "", width, "~")


def _reason(gone: GoneNode) -> str:
    reason = fmt.framed("duplicate of ", fmt.one_line(gone.same_as or "")) or _ONE.get(gone.why, "")
    return fmt.framed("  (", reason, ")")


def passes_screen(document: PassesDocument) -> Iterator[RenderableType]:
    """Show what each pass changed in one graph or in all graphs."""
    yield section("What torch's passes changed, in order")
    yield from passes_lines(document.runs, document.cwd)
    if not document.runs:
        yield Text("No passes recorded: no graph went through Inductor, or the log does not record passes.")


def passes_lines(found: Iterable[PassRun], cwd: str) -> Iterator[RenderableType]:
    """Show what each pass changed, and count the passes that changed nothing."""
    for run in found:
        yield item(Group(_head(run), *(_changed(each, cwd) for each in run.changed)))


def _head(run: PassRun) -> Text:
    subsystem = _SUBSYSTEMS.get(run.subsystem, fmt.one_line(run.subsystem, 40) or "other passes")
    counts = f"{len(run.changed)} changed the graph, {len(run.idle)} did not"
    return Text.assemble((f"{run.graph} {fmt.one_line(run.stage, 20)}: {subsystem}", "bold"), (f"  {counts}", "dim"))


def _changed(each: Pass, cwd: str) -> RenderableType:
    nodes = f"{each.before} → {each.after} nodes" if each.before != each.after else ""
    parts = [nodes, fmt.listed(_differences(each), _OPS), "" if each.has_changed else "nothing changed"]
    # As many nodes of the same ops: their order or their arguments changed.
    if each.has_changed and not any(parts):
        parts.append("reordered" if each.moved else f"{fmt.count(each.rewired, 'node')} with new arguments")
    head = hanging(f"{each.title}: {fmt.joined(' · ', *parts)}")
    patterns = [Text(f"      {_pattern(pattern, cwd)}", style="dim") for pattern in each.patterns[:_PATTERNS]]
    return Group(head, *patterns, *more(len(each.patterns), "pattern", most=_PATTERNS, before=" " * 6))


def _differences(each: Pass) -> list[str]:
    return [f"{number:+d} {fmt.short_op(op)}" for op, number in each.difference().items()]


def _pattern(pattern: Pattern, cwd: str) -> str:
    where, times = fmt.framed(" at ", places(pattern.lines, cwd)), fmt.repeated(pattern.times, " ×")
    return fmt.one_line(f"pattern {pattern.name}{times}{where}", 160)
