"""Find the nodes of Inductor's last graph that a kernel computes.

Above each Triton kernel that it generates, Inductor prints the nodes that the kernel computes as a comment, the `Graph
fragment` (2.13, `get_kernel_metadata` in _inductor/utils.py). C++ kernels and calls of a library have no such comment,
and a kernel with several calls has the comment of its first one: their nodes are those of the same line and op that
torch does not name for another kernel.
"""

import re
from functools import lru_cache
from itertools import product

from msgspec import Struct

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernels import Kernel, Launch
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import CALLS, FxGraph
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.ops import op_name

_COMPILED = re.compile(r"^(\w+) = async_compile\.")
_NODE = re.compile(r"^#   %(\w+) .*= call_(?:function|method|module)\[")


class GraphNodes(Struct, frozen=True):
    """The nodes of a stage that a kernel computes."""

    stage: str
    """The label of the stage, such as `post_grad`."""
    names: tuple[str, ...]
    is_exact: bool
    """Whether torch names the nodes; if not, these are the nodes with the line and op of a call."""


def graph_nodes(session: Session, kernel: Kernel) -> GraphNodes | None:
    """Return the nodes of a kernel in the last graph of its part; None if there is no such graph."""
    last = _last_graph(session, kernel)
    if last is None:
        return None
    label, graph = last
    fragments = _fragments_of(session, kernel)
    named = set(fragments.get(kernel.name, ()))
    if named and kernel.calls == 1:
        return GraphNodes(label, tuple(node.name for node in graph.nodes if node.name in named), is_exact=True)
    elsewhere = {name for other, names in fragments.items() if other != kernel.name for name in names}
    found = (_matching(graph, kernel, named) - elsewhere) | named
    return GraphNodes(label, tuple(node.name for node in graph.nodes if node.name in found), is_exact=False)


def _matching(graph: FxGraph, kernel: Kernel, named: set[str]) -> set[str]:
    """Return the nodes with the line and op of a call; every call has the same ops as the call with known nodes."""
    launches = kernel.launches or (Launch(ops=kernel.ops, lines=kernel.lines),)
    known = {op_name(node) for node in graph.nodes if node.name in named}
    wanted: set[tuple[str, str]] = set()
    for launch in launches:
        wanted.update(product(launch.lines, known or launch.ops))
    return {
        node.name
        for node in graph.nodes
        if node.kind in CALLS and node.at is not None and (f"{node.at.file}:{node.at.line}", op_name(node)) in wanted
    }


def _last_graph(session: Session, kernel: Kernel) -> tuple[str, FxGraph] | None:
    for each in compiled(session):
        if each.id == kernel.graph:
            for staged in each.stages:
                if staged.stage is GraphStage.POST_GRAD and str(staged.part) == str(kernel.stage) and staged.graph:
                    return staged.label, staged.graph
    return None


def _fragments_of(session: Session, kernel: Kernel) -> dict[str, tuple[str, ...]]:
    """Return the nodes that torch names for each kernel of the same graph part."""
    for code in session.code:
        if (code.graph, code.stage) == (kernel.graph, kernel.stage):
            return _fragments(code.text)
    return {}


@lru_cache(maxsize=16)
def _fragments(text: str) -> dict[str, tuple[str, ...]]:
    """Return the nodes in the comment above each generated kernel, by the kernel's name."""
    found: dict[str, tuple[str, ...]] = {}
    above: list[str] = []
    for line in text.split("\n"):
        if match := _NODE.match(line):
            above.append(match[1])
        elif match := _COMPILED.match(line):
            found[match[1]] = tuple(dict.fromkeys(above))
        if not line.startswith("#"):
            above = []
    return found
