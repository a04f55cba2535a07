"""Draw a graph: in Graphviz's language, or as a picture, by Graphviz if it is installed, else here, in plain layers."""

import shutil
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape

from msgspec import Struct

from ctrace.inspector.findings.graphs.fx import FxGraph, FxNode, FxNodeKind
from ctrace.inspector.processes.spawned import answer_of
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, graphviz_string, markup_text, xml_letters
from ctrace.reports.wording.graphs_wording import op_text, result_text

_SECONDS = 60
"""Time limit for Graphviz, which is slow for big graphs."""
_LETTER, _LINE = 6.9, 13
"""Pixels of a letter's width and a line's height at font size 10."""
_GAP, _ROW_GAP, _EDGE = 18, 46, 24
"""Pixels between boxes, between rows, where arrows pass, and around the picture."""
COLORS = {
    FxNodeKind.PLACEHOLDER: "#dbeafe",
    FxNodeKind.GET_ATTR: "#fef3c7",
    FxNodeKind.OUTPUT: "#dcfce7",
    FxNodeKind.CALL_FUNCTION: "#f8fafc",
    FxNodeKind.CALL_METHOD: "#f8fafc",
    FxNodeKind.CALL_MODULE: "#f8fafc",
}
# Chosen: longer labels make boxes that no page holds.
_LONGEST = 60


def svg_text(graph: FxGraph, title: str, dot: str) -> tuple[SafeText, str]:
    """Draw a graph; return the picture and what drew it. `dot` is the graph in Graphviz's language."""
    program = shutil.which("dot")
    why = "Graphviz is not installed"
    if program is not None:
        drawn, why = _by_graphviz(program, dot)
        if drawn:
            return markup_text(drawn), "Graphviz"
    return markup_text(_in_layers(graph, title)), f"ctrace in layers, since {why}"


def _by_graphviz(program: str, dot: str) -> tuple[str, str]:
    """Run Graphviz; return the picture, or an empty one and the reason."""
    try:
        answer = answer_of([program, "-Tsvg"], _SECONDS, dot.encode())
    except TimeoutError:
        return "", f"Graphviz took more than {_SECONDS} s"
    except OSError as error:
        return "", f"Graphviz cannot run: {error.strerror}"
    if answer.status:
        return "", f"Graphviz failed: {fmt.one_line(answer.err.decode(errors='replace'), 120)}"
    return answer.text, ""


class _Box(Struct, frozen=True):
    """Where a node is drawn, in pixels."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    color: str


def _in_layers(graph: FxGraph, title: str) -> str:
    """Put each node one row below the lowest node that it reads, and a called graph below its caller."""
    boxes: list[_Box] = []
    edges: list[tuple[_Box, _Box]] = []
    heads: list[tuple[str, float]] = [(title, _EDGE)]
    top = _EDGE * 2.0
    for number, each in enumerate(graph.whole()):
        if number:
            heads.append((each.name, top))
            top += _EDGE
        placed, top = _placed(each, top)
        boxes += placed.values()
        edges += [(placed[name], placed[node.name]) for node in each.nodes for name in node.uses if name in placed]
    return _drawn(boxes, edges, heads)


def _placed(graph: FxGraph, top: float) -> tuple[dict[str, _Box], float]:
    """Put each node below the middle of what it reads, or right of its neighbor if that spot is taken."""
    placed: dict[str, _Box] = {}
    for row in _rows(graph.nodes):
        x, tallest = float(_EDGE), 0.0
        wanted = {node.name: _middle(node, placed) for node in row}
        # From left to right as they want to be, so that few arrows cross.
        for node in sorted(row, key=lambda each: wanted[each.name]):
            lines = label_lines(node)
            width = max(map(fmt.width, lines), default=0) * _LETTER + 14
            height = len(lines) * _LINE + 8.0
            left = max(x, wanted[node.name] - width / 2)
            placed[node.name] = _Box(left, top, width, height, lines, COLORS[node.kind])
            x, tallest = left + width + _GAP, max(tallest, height)
        top += tallest + _ROW_GAP
    return placed, top


def _middle(node: FxNode, placed: dict[str, _Box]) -> float:
    """Return the middle of the nodes that a node reads; 0 if it reads none."""
    above = [placed[name].x + placed[name].width / 2 for name in node.uses if name in placed]
    if above:
        return sum(above) / len(above)
    return 0.0


def _rows(nodes: Iterable[FxNode]) -> list[list[FxNode]]:
    depth: dict[str, int] = {}
    rows: list[list[FxNode]] = []
    for node in nodes:
        at = depth[node.name] = 1 + max((depth.get(name, -1) for name in node.uses), default=-1)
        while len(rows) <= at:
            rows.append([])
        rows[at].append(node)
    return rows


def _drawn(boxes: list[_Box], edges: list[tuple[_Box, _Box]], heads: list[tuple[str, float]]) -> str:
    width = max((box.x + box.width for box in boxes), default=0.0) + _EDGE
    height = max((box.y + box.height for box in boxes), default=_EDGE) + _EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        'font-family="monospace" font-size="10">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    # Arrows first, so that boxes lie above them.
    lines += [_edge(one, other) for one, other in edges]
    lines += [part for box in boxes for part in _box(box)]
    lines += [_text(head, _EDGE, y, ' font-size="12" font-weight="bold"') for head, y in heads]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _edge(one: _Box, other: _Box) -> str:
    x1, y1, x2, y2 = one.x + one.width / 2, one.y + one.height, other.x + other.width / 2, other.y
    middle = (y1 + y2) / 2
    path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" stroke="#94a3b8"/>'


def _box(box: _Box) -> Iterable[str]:
    at = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    yield f'<rect {at} rx="4" fill="{box.color}" stroke="#475569"/>'
    for number, line in enumerate(box.lines, 1):
        yield _text(line, box.x + 7, box.y + number * _LINE)


def _text(text: str, x: float, y: float, style: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{style}>{escape(xml_letters(fmt.one(text)))}</text>'


def dot_text(graph: FxGraph, title: str) -> SafeText:
    """Draw a graph top down, with each graph that it calls in a box."""
    named = graphviz_string(fmt.one(title))
    lines = ["digraph {", f"  label={named};", '  node [shape=box style="filled,rounded" fontsize=10];']
    for number, each in enumerate(graph.whole()):
        lines += _graph(each, number)
    return markup_text("\n".join([*lines, "}"]) + "\n")


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
