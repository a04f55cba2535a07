"""Calls of `torch.nn.functional.scaled_dot_product_attention`, and what AOTAutograd made of each.

Nodes of aten ops name the call that they come from (`source_fn_stack`, 2.11 to 2.13). A call becomes one op where torch
has a fused kernel for it, and products and a softmax where it has none (`_scaled_dot_product_attention_math`).
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ctrace.inspector.capture.attentionplaces import is_backward, op_of

_FUNCTION = "scaled_dot_product_attention"
_FUSED = "_scaled_dot_product_"
_LARGEST = 1 << 28
"""Bytes that may be taken to ask torch about a call of that size."""


@dataclass(frozen=True)
class Calls:
    """The calls of one graph, by the name of their node in Dynamo's graph."""

    nodes: dict[str, list[Any]]
    names: dict[Any, str]

    @classmethod
    def of(cls, graph: Any) -> "Calls":
        """Find the nodes of each call."""
        nodes: dict[str, list[Any]] = {}
        for node in graph.nodes:
            source = (node.meta.get("source_fn_stack") or [("", None)])[-1]
            if node.op == "call_function" and not is_backward(node) and _FUNCTION in getattr(source[1], "__name__", ""):
                nodes.setdefault(str(source[0]), []).append(node)
        return cls(nodes, {node: name for name, own in nodes.items() for node in own})

    def name_of(self, node: Any) -> str | None:
        """Name the call that a node comes from."""
        return self.names.get(node)

    def fused(self) -> Iterator[dict[str, Any]]:
        """Describe the calls that became one op."""
        for name, nodes in self.nodes.items():
            for node in nodes:
                if _FUSED in op_of(node):
                    value = node.args[0].meta.get("val")
                    yield {
                        "call": name,
                        "written": [],
                        "stacks": [node.meta["stack_trace"]] if node.meta.get("stack_trace") else [],
                        "dtype": str(getattr(value, "dtype", "?")).removeprefix("torch."),
                        "device": str(getattr(value, "device", "?")),
                        "matched": None,
                        "counted": 0,
                        "became": [op_of(node)],
                        "axis": -1,
                        "why": None,
                        "choice": None,
                    }

    def why_math(self, node: Any) -> dict[str, Any] | None:
        """Say why a call has no fused kernel; None: the node is of none."""
        return None
