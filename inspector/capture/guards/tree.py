"""The nodes of torch's guard tree (torch/csrc/dynamo/guards.cpp, 2.11 to 2.13), as it can be walked from Python."""

from collections.abc import Iterator
from typing import Any


def children(node: Any) -> Iterator[Any]:
    """Give the nodes below one, those of a dict's keys and values first, in the order in which torch prints them."""
    if hasattr(node, "get_key_value_managers"):
        for _, pair in sorted(node.get_key_value_managers().items()):
            yield from (each for each in pair if each is not None)
    yield from node.get_child_managers()


def is_relational(guard: Any) -> bool:
    """Whether a leaf guard is about several values, and hangs on the node of each."""
    from torch._C._dynamo.guards import RelationalGuard

    return isinstance(guard, RelationalGuard)
