"""Screen of what each Inductor pass changed."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.facts.passes import Pass, Pattern
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.passes_view import PassRun, difference, runs
from ctrace.reports import format as fmt
from ctrace.reports.terminal.graphs.attention_screen import places
from ctrace.reports.terminal.widgets import hanging, headline, item, section

_OPS = 6
_PATTERNS = 4
_SUBSYSTEMS = {
    "pre_grad_passes": "pre-grad passes",
    "joint_graph_passes": "joint passes",
    "post_grad_passes": "post-grad passes",
}


def passes_screen(session: Session, graph_id: str | None = None) -> Iterator[RenderableType]:
    """Show what each pass changed in one graph or in all graphs."""
    yield headline(session)
    yield section("What torch's passes changed, in order")
    found = runs(session, graph_id)
    yield from passes_lines(session, found)
    if not found:
        yield Text("No passes recorded: no graph went through Inductor, or the log does not record passes.")


def passes_lines(session: Session, found: Iterable[PassRun]) -> Iterator[RenderableType]:
    """Show what each pass changed, and count the passes that changed nothing."""
    for run in found:
        yield item(Group(_head(run), *(_changed(each, session.environment.cwd) for each in run.changed)))


def _head(run: PassRun) -> Text:
    subsystem = _SUBSYSTEMS.get(run.subsystem, fmt.one_line(run.subsystem, 40) or "other passes")
    counts = f"{len(run.changed)} changed the graph, {len(run.idle)} did not"
    return Text.assemble((f"{run.graph} {fmt.one_line(run.stage, 20)}: {subsystem}", "bold"), (f"  {counts}", "dim"))


def _changed(each: Pass, cwd: str) -> RenderableType:
    nodes = f"{each.before} → {each.after} nodes" if each.before != each.after else ""
    parts = [nodes, fmt.listed(_differences(each), _OPS), "" if each.has_changed else "nothing changed"]
    if each.has_changed and not any(parts):
        parts.append("reordered" if each.moved else f"{fmt.count(each.rewired, 'node')} with new arguments")
    head = hanging(f"{each.title}: {' · '.join(part for part in parts if part)}")
    patterns = [Text(f"      {_pattern(pattern, cwd)}", style="dim") for pattern in each.patterns[:_PATTERNS]]
    left = len(each.patterns) - _PATTERNS
    rest = [Text(f"      and {fmt.count(left, 'more pattern')}: see --json", style="dim")] if left > 0 else []
    return Group(head, *patterns, *rest)


def _differences(each: Pass) -> list[str]:
    return [f"{number:+d} {fmt.short_op(op)}" for op, number in difference(each).items()]


def _pattern(pattern: Pattern, cwd: str) -> str:
    where = f" at {places(pattern.lines, cwd)}" if pattern.lines else ""
    times = f" ×{pattern.times}" if pattern.times > 1 else ""
    return fmt.one_line(f"pattern {pattern.name}{times}{where}", 160)
