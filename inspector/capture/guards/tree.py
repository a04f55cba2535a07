"""Walk the nodes of torch's guard tree from Python (torch/csrc/dynamo/guards.cpp, 2.11 to 2.13)."""

from collections.abc import Iterator
from typing import Any


def children(node: Any) -> Iterator[Any]:
    """Return the children of a node, those for a dict's keys and values first, in the order that torch prints."""

    # Only managers of dicts have it; the keys of this mapping are positions in the dict.
    if hasattr(node, "get_key_value_managers"):
        for _, pair in sorted(node.get_key_value_managers().items()):
            yield from (each for each in pair if each is not None)
    yield from node.get_child_managers()


def is_relational(guard: Any) -> bool:
    """Whether a leaf guard checks several values, and is attached to the node of each."""
    from torch._C._dynamo.guards import RelationalGuard

    return isinstance(guard, RelationalGuard)
