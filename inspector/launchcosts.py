"""Bytes and arithmetic of launches, by the nodes of the scheduler that are in them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ctrace.inspector.fusion import Fusion, Node
from ctrace.inspector.generated import Launch


class Costs:
    """What the launches of one graph part cost."""

    def __init__(self, fusion: Fusion | None, launches: Sequence[tuple[str, ...]]) -> None:
        """Take the operations of each launch."""
        result = fusion.result if fusion is not None else ()
        self._nodes = {operation: node for node in result for operation in node.operations}
        self._launches = Counter(node.name for operations in launches for node in self.nodes(operations))

    def nodes(self, operations: tuple[str, ...]) -> tuple[Node, ...]:
        """Give the nodes that a launch computes, a C++ kernel's loop nests; none where not all are known."""
        found = {node.name: node for each in operations if (node := self._nodes.get(each)) is not None}
        return tuple(found.values()) if all(each in self._nodes for each in operations) else ()

    def counted(self, launch: Launch) -> Launch:
        """Add what its nodes move and compute; not known where one is not found, or is spread over launches."""
        nodes = self.nodes(launch.operations)
        if not nodes or any(self._launches[node.name] > 1 for node in nodes):
            return launch
        flops = [node.flops for node in nodes if node.flops is not None]
        return replace(
            launch,
            read=sum(node.read for node in nodes),
            written=sum(node.written for node in nodes),
            flops=sum(flops) if len(flops) == len(nodes) else None,
        )
