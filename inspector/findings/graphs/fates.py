"""Describe each graph in a few words: its backward, its attention, and the breaks that split it from another graph."""

from collections.abc import Iterable

from ctrace.inspector.facts.findings import BreakKind
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Graph, Session
from ctrace.inspector.findings.graphs.attention_view import answers, short
from ctrace.inspector.findings.graphs.cuts import Cut


def happened(session: Session, graph: Graph) -> str:
    """Describe the backward and the attention of a graph in a few words."""
    stages = {kernel.stage for kernel in session.kernels if kernel.graph == graph.id}
    parts = ["with backward" if Stage.BACKWARD in stages else "", short(answers(session, graph.id))]
    return ", ".join(part for part in parts if part)


def cut_off(session: Session, cut: Cut, places: Iterable[str]) -> str:
    """Describe which two graphs would be one without some breaks."""
    disabled = all(session.breaks[at].kind is BreakKind.DISABLED for at in cut.breaks)
    reason = ", disabled by its author" if disabled else ""
    return f"{cut.before} and {cut.after} would be one graph without the break at {' and '.join(places)}{reason}"
