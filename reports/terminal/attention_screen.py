"""Attention on a screen: whether it is fused, and if not, why and what to do."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionGroup, AttentionState, answers
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import fix, hanging, item

_STYLES = {AttentionState.WRONG: "bold red", AttentionState.FUSED: "green", AttentionState.MATCHED: "green"}
_PLACES = 4


def attention_lines(session: Session, graph_id: str | None = None) -> Iterator[RenderableType]:
    """Show each attention of one graph or of all graphs: its outcome, place, reason and fix."""
    for each in answers(session, graph_id):
        yield attention_item(each, session.environment.cwd)


def attention_item(answer: AttentionGroup, cwd: str) -> RenderableType:
    """Show one attention."""
    each = answer.attention
    style = _STYLES.get(answer.state, "yellow")
    text = answer.sentence[:1].upper() + answer.sentence[1:]
    facts = [places(each.lines, cwd), f"graph {each.graph}"]
    if answer.times > 1:
        facts.append(f"{answer.times} times")
    if each.dtype:
        facts.append(f"{each.dtype} on {each.device}")
    facts.append(each.matched or "")
    details = "  " + " · ".join(fmt.one_line(fact, 120) for fact in facts if fact)
    head = Text.assemble((fmt.one_line(text, 200), style), (details, "dim"))
    lines: list[RenderableType] = [head]
    if answer.why:
        lines.append(hanging(answer.why))
    if answer.fix:
        lines.append(fix(answer.fix))
    return item(Group(*lines))


def places(lines: tuple[str, ...], cwd: str) -> str:
    """Write `file.py:10,12`, each file once."""
    by_file: dict[str, list[str]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        by_file.setdefault(fmt.place(file, None, cwd), []).append(number)
    listed = (
        f"{file}:{','.join(numbers[:_PLACES])}{'…' if len(numbers) > _PLACES else ''}"
        for file, numbers in by_file.items()
    )
    return fmt.listed(listed, 2)
