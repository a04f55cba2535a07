"""Source, graph and kernels of a run, and which lines and nodes belong together.

The facts are those of `ctrace graphs` and `ctrace kernels` as JSON: a node has the line that torch keeps for it, a
kernel has the nodes that it computes, and a line of its source has the user's lines that it is from.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.kernels.kernel_view import parts
from ctrace.reports import format as fmt
from ctrace.reports.json.graphs_json import render_stage_json
from ctrace.reports.json.kernels_json import render_kernels_json

_LONGEST = 400
_USUAL = ("post_grad", "forward", "inference")


class GraphNode(Struct, frozen=True):
    """A node of a graph stage, as one line."""

    name: str
    text: str
    place: str
    """`model.py:12`; empty: torch keeps no line for it."""


class KernelSource(Struct, frozen=True):
    """A kernel, with its lines."""

    key: str
    """Graph, part and name."""
    name: str
    language: str
    lines: tuple[str, ...]
    """Its source; for a library call, its calls."""
    places: frozenset[str]
    from_line: Mapping[int, tuple[str, ...]]
    """Places by index of the line."""
    stage: str
    """The stage whose nodes it names; empty: torch names none."""
    nodes: frozenset[str]


class Linked(Struct, frozen=True):
    """What belongs to a selection."""

    places: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()


class BrowsedRun:
    """The source, graphs and kernels of a run."""

    def __init__(self, session: Session) -> None:
        cwd = session.environment.cwd
        self._session = session
        self._compiled = {each.id: each for each in compiled(session)}
        self.files = {
            fmt.relative(file, cwd): [_code(line) for line in text.split("\n")]
            for file, text in session.listings.items()
        }
        self.graphs = {each.id: [staged.label for staged in each.stages] for each in self._compiled.values()}
        found = json.loads(render_kernels_json(session, parts(session), source=True))
        self.kernels = [_kernel(each) for part in found["parts"] for each in part["kernels"]]
        self._nodes: dict[tuple[str, str], list[GraphNode]] = {}

    def usual_stage(self, graph: str) -> str:
        """Return the stage to show first: the one that kernels are generated from."""
        labels = self.graphs[graph]
        return next((name for name in _USUAL if name in labels), labels[0] if labels else "")

    def nodes(self, graph: str, stage: str) -> list[GraphNode]:
        """Return the nodes of a stage, read once."""
        if (graph, stage) not in self._nodes:
            each = self._compiled.get(graph)
            stages = () if each is None else each.stages
            staged = next((one for one in stages if one.label == stage), None)
            found: list[GraphNode] = []
            if each is not None and staged is not None and staged.graph is not None:
                read = json.loads(render_stage_json(self._session, each, staged))["graph"]
                found = [_node(one) for one in _flat(read)]
            self._nodes[graph, stage] = found
        return self._nodes[graph, stage]

    def kernels_of(self, graph: str) -> list[KernelSource]:
        """Return the kernels of a graph."""
        return [each for each in self.kernels if each.key.startswith(f"{graph} ")]

    def of_places(self, places: Iterable[str], graph: str, stage: str) -> Linked:
        """Return what comes from some lines."""
        wanted = frozenset(places)
        nodes = frozenset(each.name for each in self.nodes(graph, stage) if each.place in wanted)
        kernels = frozenset(each.key for each in self.kernels_of(graph) if each.places & wanted)
        return Linked(wanted, nodes, kernels)

    def of_node(self, name: str, graph: str, stage: str) -> Linked:
        """Return what belongs to a node: the kernels that name it, else those of its line."""
        place = next((each.place for each in self.nodes(graph, stage) if each.name == name), "")
        places = frozenset((place,)) if place else frozenset()
        known = self.kernels_of(graph)
        named = frozenset(each.key for each in known if each.stage == stage and name in each.nodes)
        by_line = frozenset(each.key for each in known if each.places & places)
        return Linked(places, frozenset((name,)), named or by_line)

    def of_kernel_line(self, kernel: KernelSource, line: int, graph: str, stage: str) -> Linked:
        """Return what a line of a kernel comes from."""
        places = frozenset(kernel.from_line.get(line, ()))
        at_places = self.of_places(places, graph, stage).nodes
        nodes = at_places & kernel.nodes if kernel.stage == stage else at_places
        return Linked(places, nodes, frozenset((kernel.key,)))


def _code(line: str) -> str:
    """Return a line of code with its indentation, and nothing that a terminal could obey."""
    return fmt.cut(fmt.plain(line[: 16 * _LONGEST].expandtabs(4)).replace("\n", "\\n"), _LONGEST)


def _flat(graph: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield from graph["nodes"]
    for each in graph["graphs"]:
        yield from _flat(each)


def _node(each: dict[str, Any]) -> GraphNode:
    sizes = each["sizes"]
    kind = f"  {each['dtype'] or ''}[{', '.join(sizes)}]" if sizes is not None else ""
    place = f"{each['file']}:{each['line']}" if each["file"] and each["line"] else ""
    if each["args"]:
        args = f"({each['args']})"
    elif each["kind"] == "placeholder":
        args = "  input"
    else:
        args = ""
    return GraphNode(each["name"], fmt.one_line(f"{each['name']} = {each['op']}{args}{kind}", _LONGEST), place)


def _kernel(each: dict[str, Any]) -> KernelSource:
    source = each["source"]
    from_line = {one["line"] - 1: tuple(one["lines"]) for one in each["statements"]}
    if source is None:
        calls = [one for one in each["launches"] if one["lines"]]
        lines = tuple(one.get("call") or ", ".join(one["ops"]) for one in calls)
        from_line = {at: tuple(one["lines"]) for at, one in enumerate(calls)}
    else:
        lines = tuple(source.split("\n"))
    stage, names = "", frozenset[str]()
    if nodes := each["graph_nodes"]:
        stage, names = nodes["stage"], frozenset(nodes["names"])
    return KernelSource(
        key=f"{each['graph']} {each['stage']} {each['name']}",
        name=fmt.one(each["name"], _LONGEST),
        language=each["language"],
        lines=tuple(_code(line) for line in lines),
        places=frozenset(each["lines"]) | {place for some in from_line.values() for place in some},
        from_line=from_line,
        stage=stage,
        nodes=names,
    )
