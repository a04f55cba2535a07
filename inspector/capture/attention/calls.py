"""Find calls of `torch.nn.functional.scaled_dot_product_attention`, and the aten ops that each one becomes.

Nodes of aten ops name the call that they come from (`source_fn_stack`, 2.11 to 2.13). A call becomes one op if torch
has a fused kernel for it, and otherwise matmuls and a softmax (`_scaled_dot_product_attention_math`).
"""

from collections.abc import Container, Iterator
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.attention.places import is_backward, op_of

_FUNCTION = "scaled_dot_product_attention"
_MODULE = "multi_head_attention_forward"
"""The function that `nn.MultiheadAttention` calls; Dynamo keeps it as one node (2.11 to 2.13)."""
FUSED = "_scaled_dot_product_"
"""Prefix of the names of torch's fused attention ops."""


class Calls(Struct, frozen=True):
    """The attention calls of one graph, keyed by their names in Dynamo's graph."""

    nodes: dict[str, list[Any]]
    names: dict[Any, str]

    @classmethod
    def of(cls, graph: Any, modules: Container[str]) -> "Calls":
        """Find the nodes of each call; for a call in `modules`, the nodes name a module's class as their function."""
        nodes: dict[str, list[Any]] = {}
        for node in graph.nodes:
            name, function = _source(node)
            is_of_call = node.op == "call_function" and not is_backward(node)
            if is_of_call and (is_attention(function) or str(name) in modules):
                nodes.setdefault(str(name), []).append(node)
        return cls(nodes, {node: name for name, own in nodes.items() for node in own})

    def without(self, names: Container[str]) -> "Calls":
        """Return the calls except those in `names`."""
        nodes = {name: own for name, own in self.nodes.items() if name not in names}
        return Calls(nodes, {node: name for node, name in self.names.items() if name in nodes})

    def name_of(self, node: Any) -> str | None:
        """Return the name of the call that a node comes from."""
        return self.names.get(node)

    def fused(self) -> Iterator[tuple[str, Any]]:
        """Return the calls that became one op, each with its node."""
        for name, nodes in self.nodes.items():
            yield from ((name, node) for node in nodes if FUSED in op_of(node))


def is_attention(function: Any) -> bool:
    """Whether a function is `scaled_dot_product_attention`, or one that calls it and is one node of Dynamo's graph."""
    return getattr(function, "__name__", None) in (_FUNCTION, _MODULE)


def is_module(function: Any) -> bool:
    """Whether a function is the one that `nn.MultiheadAttention` calls."""
    return getattr(function, "__name__", None) == _MODULE


def wants_weights(node: Any) -> bool:
    """Whether `nn.MultiheadAttention` must return weights, and so does not call `scaled_dot_product_attention`."""
    return is_module(node.target) and bool(node.kwargs.get("need_weights", True))


def fused_ops(replacement: Any) -> list[str]:
    """Return the names of a replacement's fused attention ops, each once."""
    nodes = [node for node in replacement.graph.nodes if node.op == "call_function"]
    return list(dict.fromkeys(op_of(node) for node in nodes if FUSED in op_of(node)))


def source_name(node: Any) -> str:
    """Return the name of the call that a node comes from; the node may be named after the user's variable."""
    return str(_source(node)[0])


def _source(node: Any) -> tuple[Any, Any]:
    stack = node.meta.get("source_fn_stack")
    return stack[-1] if stack else (node.name, None)
