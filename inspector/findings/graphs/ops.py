"""Name and classify the ops that nodes call."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ctrace.inspector.findings.graphs.fx import CALLS, FxGraph, FxNode, FxNodeKind

_GETITEM = "operator.getitem"
_VIEWS = frozenset(
    (
        "view", "permute", "expand", "transpose", "t", "slice", "select", "squeeze", "unsqueeze", "alias", "detach",
        "as_strided", "diagonal", "unfold", "split", "split_with_sizes", "unbind", "view_as_real", "view_as_complex",
        "real", "imag", "narrow", "movedim", "_unsafe_view", "lift_fresh", "split_dim", "view_of", "broadcast_in_dim",
    )
)  # fmt: skip
"""Aten and prims ops whose result shares the memory of their first argument (aten/native/native_functions.yaml)."""
_RANDOM = ("rand", "bernoulli", "dropout", "normal", "uniform", "multinomial", "poisson", "exponential", "cauchy")
_ATEN = ("aten.", "prims.")


def op_name(node: FxNode) -> str:
    """Return the name of what a node calls: `aten.mm`, `prims.fma`, `cond`, `linear`, or the name of a method."""
    if node.kind is FxNodeKind.CALL_MODULE:
        return node.target
    return _name(node.target)


@lru_cache(maxsize=4096)
def _name(target: str) -> str:
    parts = target.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 3:
        if parts[2] == "higher_order":
            return parts[3]
        return f"{parts[2]}.{parts[3]}"
    return parts[-1]


def overload(node: FxNode) -> str:
    """Return the overload of an op of torch.ops, such as `Tensor`; empty for the default and for other calls."""
    parts = node.target.split(".")
    is_op = parts[:2] == ["torch", "ops"] and len(parts) > 4
    return parts[4] if is_op and parts[4] != "default" else ""


def is_aten(node: FxNode) -> bool:
    """Whether a node calls an op of torch.ops, not a Python function or method."""
    return op_name(node).startswith(_ATEN)


def is_view(node: FxNode) -> bool:
    """Whether an aten op returns a view of its first argument."""
    name = op_name(node)
    return name.startswith(_ATEN) and name.partition(".")[2] in _VIEWS


def is_random(node: FxNode) -> bool:
    """Whether an op returns a different result on each call."""
    name = op_name(node)
    return any(part in name for part in _RANDOM)


def operations(graph: FxGraph) -> tuple[FxNode, ...]:
    """List the nodes of a graph and its subgraphs that compute tensors, without `getitem` and arithmetic on sizes."""
    return tuple(node for each in graph.whole() for node in _operations(each))


def _operations(graph: FxGraph) -> Iterable[FxNode]:
    several = {node.name for node in graph.nodes if node.kind in CALLS and node.type is None and not node.symbol}
    for node in graph.nodes:
        is_pick = node.target == _GETITEM and not several.isdisjoint(node.uses[:1])
        if node.kind in CALLS and not node.symbol and not is_pick:
            yield node


def counted(nodes: Iterable[FxNode]) -> tuple[tuple[str, int], ...]:
    """Count operations by name, most first."""
    return tuple(Counter(map(op_name, nodes)).most_common())


def memory_root(nodes: Mapping[str, FxNode], name: str) -> str:
    """Follow views back to the node that owns the memory; `nodes` has a graph's nodes by name."""
    for _ in nodes:  # at most so many steps: the text of a damaged log may have a cycle
        node = nodes.get(name)
        if node is None or not node.uses:
            break
        first = nodes.get(node.uses[0])
        is_part = node.target == _GETITEM and first is not None and is_view(first)
        if not is_part and not is_view(node):
            break
        name = node.uses[0]
    return name
