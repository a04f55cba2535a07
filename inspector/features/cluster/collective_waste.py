"""Find collectives of a graph whose result is used in a way that needs less communication.

Each finding holds for the graph as it is: all users of the result are followed, through waits and views of the whole,
until it is certain what they read.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.findings.graphs.fx import CALLS, FxGraph, FxNode

_GROUP = re.compile(r"""['"]([^'"]*)['"]""")
_ALL_REDUCE = re.compile(r"\.all_reduce_?\.")
_REDUCTION = ("sum", "avg")
"""Reductions that a reduce-scatter has, too."""


class WasteKind(StrEnum):
    """What is done in vain."""

    UNDONE = "undone_gather"
    """A gather of which this rank reads its own part only."""
    REPEATED = "repeated_gather"
    """A gather of what an earlier one has gathered already."""
    SCATTERED = "all_reduce_scattered"
    """An all-reduce of which this rank reads its own part only: a reduce-scatter."""


class Waste(Struct, frozen=True):
    """One collective that could be less."""

    JSON: ClassVar[str] = "kind graph node other|null_if_empty file|relative line what fix"
    kind: WasteKind
    graph: str
    node: str
    other: str
    """The node that it repeats; empty: none."""
    file: str | None
    line: int | None
    what: str
    fix: str


def wasted(graph: FxGraph, graph_id: str, coordinates: Mapping[str, tuple[int, int]]) -> Iterator[Waste]:
    """Yield the findings of a graph; `coordinates` has this rank's place in each group, and the group's size."""
    users: dict[str, list[FxNode]] = {}
    for node in graph.nodes:
        for name in node.uses:
            users.setdefault(name, []).append(node)
    outputs = {output.text for output in graph.outputs}
    written = {name for node in graph.nodes if node.kind in CALLS and "_." in node.target for name in node.uses[:1]}
    gathers: dict[tuple[str, str], FxNode] = {}
    for node in filter(_is_of_interest, graph.nodes):
        names = _GROUP.findall(node.args)
        group = names[-1] if names else ""
        earlier = gathers.setdefault((node.uses[0], group), node) if _is_gather(node) else node
        rank, parts = coordinates.get(group, (0, 1))
        if earlier is not node and node.uses[0] not in written:
            yield _repeated(node, earlier, graph_id)
        elif parts > 1 and _reads_own_part(node, users, outputs, rank, parts):
            if _is_gather(node):
                yield _undone(node, graph_id)
            elif names[0] in _REDUCTION:
                yield _scattered(node, graph_id)


def _is_gather(node: FxNode) -> bool:
    return ".all_gather_into_tensor." in node.target


def _is_of_interest(node: FxNode) -> bool:
    return bool(node.uses) and (_is_gather(node) or _ALL_REDUCE.search(node.target) is not None)


def _reads_own_part(node: FxNode, users: Mapping[str, list[FxNode]], outputs: set[str], rank: int, parts: int) -> bool:
    """Whether all that is read of a result is one of `parts` equal parts of its first dimension, that of this rank."""
    waits = users.get(node.name, [])
    if len(waits) != 1 or ".wait_tensor." not in waits[0].target or node.name in outputs:
        return False
    whole = waits[0]
    if whole.name in outputs or whole.type is None or not whole.type.sizes or not whole.type.sizes[0].isdecimal():
        return False
    size = int(whole.type.sizes[0])
    if size % parts:
        return False
    readers = users.get(whole.name, [])
    return bool(readers) and all(_is_own_part(each, whole, users, outputs, rank, size // parts) for each in readers)


def _is_own_part(
    reader: FxNode, whole: FxNode, users: Mapping[str, list[FxNode]], outputs: set[str], rank: int, part: int
) -> bool:
    arguments = [each.strip() for each in reader.args.split(",")]
    begin, end = str(rank * part), str((rank + 1) * part)
    if ".aten.slice.Tensor" in reader.target:
        # The end of the last part may be written as the largest number.
        ends = (end, str(2**63 - 1)) if reader.type is not None and reader.type.sizes[0] == str(part) else (end,)
        return arguments[:3] == [whole.name, "0", begin] and len(arguments) == 4 and arguments[3] in ends
    if ".aten.split.Tensor" in reader.target:
        is_first_dimension = arguments in ([whole.name, str(part)], [whole.name, str(part), "0"])
        items = users.get(reader.name, [])
        picks = all(
            "getitem" in each.target and each.args.replace(" ", "") == f"{reader.name},{rank}" for each in items
        )
        return is_first_dimension and bool(items) and picks and reader.name not in outputs
    return False


def _place(node: FxNode) -> tuple[str | None, int | None]:
    return (None, None) if node.at is None else (node.at.file, node.at.line)


def _repeated(node: FxNode, earlier: FxNode, graph: str) -> Waste:
    what = f"{node.name} gathers what {earlier.name} has gathered already, and nothing writes to it in between"
    return Waste(
        WasteKind.REPEATED,
        graph,
        node.name,
        earlier.name,
        *_place(node),
        what,
        "keep the first result, and use it twice",
    )


def _undone(node: FxNode, graph: str) -> Waste:
    what = f"of what {node.name} gathers, this rank reads only the part that it had before"
    return Waste(
        WasteKind.UNDONE, graph, node.name, "", *_place(node), what, "use the local shard without gathering it"
    )


def _scattered(node: FxNode, graph: str) -> Waste:
    what = f"of what {node.name} reduces, this rank reads only its own part"
    fix = "reduce to shards: a reduce-scatter moves half as much; for a DTensor, redistribute from Partial to Shard(0)"
    return Waste(WasteKind.SCATTERED, graph, node.name, "", *_place(node), what, fix)
