"""A graph in Graphviz's language."""

from collections.abc import Iterator

from ctrace.inspector.findings.graphs.text.fx import FxGraph, FxNode, FxNodeKind
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, graphviz_string, markup_document
from ctrace.reports.wording.graphs_wording import op_text, result_text

COLORS = {
    FxNodeKind.PLACEHOLDER: "#dbeafe",
    FxNodeKind.GET_ATTR: "#fef3c7",
    FxNodeKind.OUTPUT: "#dcfce7",
    FxNodeKind.CALL_FUNCTION: "#f8fafc",
    FxNodeKind.CALL_METHOD: "#f8fafc",
    FxNodeKind.CALL_MODULE: "#f8fafc",
}
_LONGEST = 60


def dot_text(graph: FxGraph, title: str) -> Document:
    """Draw a graph top down, with each graph that it calls in a box."""
    named = graphviz_string(fmt.one(title))
    lines = ["digraph {", f"  label={named};", '  node [shape=box style="filled,rounded" fontsize=10];']
    for number, each in enumerate(graph.whole()):
        lines += _graph(each, number)
    return markup_document("\n".join([*lines, "}"]) + "\n")


def _graph(graph: FxGraph, number: int) -> Iterator[str]:
    if number:
        yield f"  subgraph cluster_{number} {{ label={graphviz_string(fmt.one(graph.name, _LONGEST))};"
    known = {node.name: f"n{number}_{at}" for at, node in enumerate(graph.nodes)}
    for at, node in enumerate(graph.nodes):
        yield f'  n{number}_{at} [label={_label(node)} fillcolor="{COLORS[node.kind]}"];'
    if number:
        yield "  }"
    for at, node in enumerate(graph.nodes):
        yield from (f"  {known[name]} -> n{number}_{at};" for name in node.uses if name in known)


def label_lines(node: FxNode) -> tuple[str, ...]:
    """Return a node's label: its name, its call and its result."""
    call = "" if node.kind in (FxNodeKind.PLACEHOLDER, FxNodeKind.OUTPUT) else op_text(node)
    texts = (node.name, call, result_text(node))
    return tuple(fmt.one(text, _LONGEST) for text in texts if text)


def _label(node: FxNode) -> str:
    return graphviz_string("\n".join(label_lines(node)))
