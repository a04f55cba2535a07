"""Fold the fusion of each graph part: each node gets the user's lines of all its operations (`fusions_of`)."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ctrace.inspector.facts.fusion_facts import Fusion, FusionDone, Node
from ctrace.inspector.source.stacks import user_lines


def fusions_of(done: Iterable[FusionDone], prefixes: Mapping[str, str]) -> tuple[Fusion, ...]:
    """Return the fusion of each graph part with the user's lines; a fused node has the lines of all its operations."""
    return tuple(_with_lines(each, prefixes) for each in done)


def _with_lines(done: FusionDone, prefixes: Mapping[str, str]) -> Fusion:
    stacks = dict.fromkeys(stack for each in done.stacks.values() for stack in each)
    # Nodes share most stacks, which are long texts: each is parsed once.
    of_stack = {stack: user_lines((stack,), prefixes) for stack in stacks}
    of_node = {name: _joined(of_stack[stack] for stack in each) for name, each in done.stacks.items()}
    of_operation = {
        operation: of_node.get(node.name, ()) for node in done.fusion.nodes for operation in node.operations
    }

    def placed(node: Node) -> Node:
        return replace(node, lines=_joined(of_operation.get(operation, ()) for operation in node.operations))

    fusion = done.fusion
    return replace(fusion, nodes=tuple(map(placed, fusion.nodes)), result=tuple(map(placed, fusion.result)))


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for part in parts for line in part))
