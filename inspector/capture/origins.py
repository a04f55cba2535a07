"""Which nodes of the FX graph a node of Inductor's came from."""

from typing import Any


def origins_of(node: Any, *, exact: bool) -> list[Any]:
    """Give the FX nodes of an `ir.Operation`; `exact`: the one that it computes, where torch knows it."""
    # An external call computes exactly one node; a fused one has many origins.
    origin = getattr(node, "origin_node", None) if exact else None
    return [origin] if origin is not None else list(node.origins)


def ops_of(origins: list[Any]) -> list[str]:
    """Name the aten ops of FX nodes, each once."""
    return list(dict.fromkeys(_op(origin) for origin in origins if origin.op == "call_function"))


def _op(origin: Any) -> str:
    """Name an FX node's target as `aten.add`, without its overload."""
    packet = getattr(origin.target, "overloadpacket", origin.target)
    return str(packet) if packet is not origin.target else getattr(origin.target, "__name__", str(origin.target))
