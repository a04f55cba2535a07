"""What `ctrace collectives` answers: each collective of a rank in order, who put it there, and what could hide it.

Collectives outside of graphs come from what ran (`child/called_collectives.py`); those of a graph come from the graph,
as Inductor's last passes over it left it, each time that the graph ran. A log of a process that is no virtual rank
lacks the former, and when a graph ran; then each graph counts once.

`wasted` finds collectives of a graph whose result is used in a way that needs less communication. Each finding holds
for the graph as it is: all users of the result are followed, through waits and views of the whole, until it is certain
what they read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.cluster_facts import CollectiveCalled, CollectiveOrigin, MeshMade
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.findings.graphs.fx import CALLS, FxGraph, FxNode, TensorType, item_bytes, number
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged, compiled
from ctrace.inspector.knowledge.counting import count

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
    # An op in place has a name that ends with `_`, and writes to its first argument.
    written = {name for node in graph.nodes if node.kind in CALLS and "_." in node.target for name in node.uses[:1]}
    gathers: dict[tuple[str, str], FxNode] = {}
    for node in filter(_is_of_interest, graph.nodes):
        names = _GROUP.findall(node.args)
        group = ""
        if names:
            group = names[-1]
        if _is_gather(node):
            earlier = gathers.setdefault((node.uses[0], group), node)
        else:
            earlier = node
        # Of a group that is not known, nothing is claimed: one part is the whole.
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
    # Another user could read the result before it is there, or all of it.
    if len(waits) != 1 or ".wait_tensor." not in waits[0].target or node.name in outputs:
        return False
    whole = waits[0]
    # What leaves the graph may be read as a whole; a size that is not fixed has no known parts.
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
        ends = [end]
        if reader.type is not None and reader.type.sizes[0] == str(part):
            ends.append(str(2**63 - 1))  # how the end of the last part may be written
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
    if node.at is None:
        return (None, None)
    return (node.at.file, node.at.line)


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


_COLLECTIVE = re.compile(r"torch\.ops\.(?:_c10d_functional|_dtensor|c10d|symm_mem)\.(?P<op>\w+?)_?\.\w+")
_WAIT = "wait_tensor"
_QUOTED = re.compile(r"""['"]([^'"]*)['"]""")
_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")
_LAST = (GraphStage.POST_GRAD, GraphStage.BEFORE_POST_GRAD)
"""The stages to read, the last one that the log has."""
_LAYOUT = ("aten.view", "aten.reshape", "aten.permute", "aten.split", "aten.cat", "aten.slice", "aten.t", "getitem")
"""Ops that mostly move no data, or little."""
_SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "c64": "complex64", "c128": "complex128",
}  # fmt: skip


class Collective(Struct, frozen=True):
    """One collective of this rank."""

    JSON: ClassVar[str] = (
        "op group|null_if_empty group_size bytes dtype|null_if_empty part file|relative line origin bucket "
        "starts_at|null_if_empty waits_at|null_if_empty compiled graph|null_if_empty change|null_if_empty between "
        "why|null_if_empty"
    )
    op: str
    group: str
    """The dimension of the mesh whose group it is, else torch's name of the group; empty: not known."""
    group_size: int | None
    """None: not known."""
    bytes: int | None
    """The larger one of what goes in and what comes out on this rank; None: a size is not known."""
    dtype: str
    part: str
    """`forward` or `backward`."""
    file: str | None
    line: int | None
    """The user's line; None: torch does not know."""
    origin: CollectiveOrigin
    bucket: tuple[str, ...] = ()
    """The parameters whose shards or gradients travel together."""
    starts_at: str = ""
    """Where it stands in its graph, such as `node 12 of 60`; empty: outside of a graph."""
    waits_at: str = ""
    """Where the graph waits for it."""
    compiled: bool = False
    """Whether it is part of a graph."""
    graph: str = ""
    change: str = ""
    """For a DTensor outside of a graph, its placements before and after."""
    between: int | None = None
    """How many ops that compute stand between start and wait; None: not known."""
    why: str = ""
    """Why nothing hides it, as far as the graph shows that."""


class CollectivesDocument(RunDocument, frozen=True, kw_only=True):
    """The collectives of one rank, in order."""

    JSON: ClassVar[str] = (
        "schema verdict=run.verdict rank world collectives totals findings cut_after notes problems=run.problems"
    )
    rank: int | None
    """None: the process is no rank of a virtual cluster."""
    world: int | None
    collectives: tuple[Collective, ...]
    totals: dict[str, int]
    """How many there are of each kind."""
    findings: tuple[Waste, ...]
    cut_after: int | None
    """After how many the record of calls ends; None: it is whole."""
    notes: tuple[str, ...]


def collectives_document(session: Session) -> CollectivesDocument:
    """Answer for a whole run."""
    cluster = session.cluster
    graphs = {each.id: _InGraph(session, each) for each in compiled(session)}
    found = list(_in_order(session, graphs))
    if cluster is not None or not graphs:
        notes = []
    else:
        notes = [_ONLY_GRAPHS]
    rank = world = cut_after = None
    if cluster is not None:
        rank, world, cut_after = cluster.rank, cluster.world, cluster.cut_after
    return CollectivesDocument(
        run=session.run,
        rank=rank,
        world=world,
        collectives=tuple(found),
        totals=dict(Counter(each.op for each in found)),
        findings=tuple(waste for graph in graphs.values() for waste in graph.waste(rank)),
        cut_after=cut_after,
        notes=tuple(notes),
    )


_ONLY_GRAPHS = (
    "only collectives of graphs, each graph once: what ran outside of graphs is known of a run with --world N"
)


def _in_order(session: Session, graphs: "Mapping[str, _InGraph]") -> Iterator[Collective]:
    names = _names(() if session.cluster is None else session.cluster.meshes)
    # Without a record of calls, it is not known how often each graph ran.
    if session.cluster is None:
        for graph in graphs.values():
            yield from graph.of(is_backward=False)
            yield from graph.of(is_backward=True)
        return
    for each in session.cluster.calls:
        if isinstance(each, CollectiveCalled):
            yield _called(each, names)
        elif each.graph in graphs:
            yield from graphs[each.graph].of(is_backward=each.is_backward)


def _names(meshes: Iterable[MeshMade]) -> dict[str, tuple[str, int]]:
    """Return the name and the size of each dimension of a mesh, by torch's name of its process group."""
    found = {}
    for mesh in meshes:
        for index, (group, size) in enumerate(zip(mesh.groups, mesh.shape, strict=False)):
            if index < len(mesh.names):
                name = mesh.names[index]
            else:
                name = f"mesh dimension {index}"
            found[group] = name, size
    return found


def _called(each: CollectiveCalled, names: Mapping[str, tuple[str, int]]) -> Collective:
    return Collective(
        op=each.op,
        group=_group_name(each.group, names),
        group_size=each.group_size,
        bytes=each.bytes,
        dtype=each.dtype,
        part="backward" if each.is_backward else "forward",
        file=each.file or None,
        line=each.line or None,
        origin=each.origin,
        bucket=each.bucket,
        waits_at=each.waited,
        change=each.change,
    )


def _group_name(group: str, names: Mapping[str, tuple[str, int]]) -> str:
    if group in names:
        return names[group][0]
    if group == "0":
        return "world"
    return group


class _InGraph:
    """Reads the collectives of one graph, once for each part."""

    def __init__(self, session: Session, graph: CompiledGraph) -> None:
        self._session = session
        self._graph = graph
        self._names = _names(() if session.cluster is None else session.cluster.meshes)
        self._world = None if session.cluster is None else session.cluster.world
        self._found: dict[bool, tuple[Collective, ...]] = {}

    def of(self, *, is_backward: bool) -> tuple[Collective, ...]:
        """Return the collectives of the forward, or of the backward."""
        if is_backward not in self._found:
            self._found[is_backward] = tuple(self._read(is_backward=is_backward))
        return self._found[is_backward]

    def waste(self, rank: int | None) -> Iterator[Waste]:
        """Yield what the graph communicates in vain."""
        for is_backward in (False, True):
            staged = self._staged(is_backward=is_backward)
            if staged is not None and staged.graph is not None:
                yield from wasted(staged.graph, self._graph.id, self._coordinates)

    @cached_property
    def _coordinates(self) -> dict[str, tuple[int, int]]:
        """Position of this rank in each group, and the group's size."""
        cluster = self._session.cluster
        if cluster is None:
            return {}
        found = {"0": (cluster.rank, cluster.world)}
        for mesh in cluster.meshes:
            for group, place, size in zip(mesh.groups, mesh.coordinate, mesh.shape, strict=False):
                found[group] = place, size
        return found

    def _staged(self, *, is_backward: bool) -> Staged | None:
        """Return the last stage of a part that the log has."""
        parts, plain = [Stage.FORWARD, Stage.INFERENCE], [GraphStage.FORWARD, GraphStage.INFERENCE]
        if is_backward:
            parts, plain = [Stage.BACKWARD], [GraphStage.BACKWARD]
        for stage in (*_LAST, *plain):
            for each in self._graph.stages:
                if each.stage is stage and each.part in parts and each.graph is not None:
                    return each
        return None

    def _read(self, *, is_backward: bool) -> Iterator[Collective]:
        staged = self._staged(is_backward=is_backward)
        if staged is None or staged.graph is None:
            return
        # What only the later stage has was added by Inductor's passes.
        earlier = self._graph.first(GraphStage.BEFORE_POST_GRAD, part=staged.part) or staged.graph
        known = {node.name for node in earlier.nodes}
        lines = self._lines(Stage.BACKWARD if is_backward else None)
        nodes = [node for node in staged.graph.nodes if node.kind in CALLS]
        seen: Counter[str] = Counter()
        for index, node in enumerate(nodes):
            match = _COLLECTIVE.match(node.target)
            if match is None or match["op"] == _WAIT:
                continue
            place = self._place(node, lines, seen)
            seen[node.target] += 1
            made = self._collective(node, match["op"], staged.graph, is_backward=is_backward)
            waits = _wait_of(nodes, index)
            if node.name in known:
                origin = self._origin(node)
            else:
                origin = CollectiveOrigin.PASS
            yield replace(
                made,
                file=place[0],
                line=place[1],
                origin=origin,
                starts_at=f"node {index + 1} of {len(nodes)}",
                waits_at=f"node {waits + 1} of {len(nodes)}" if waits is not None else "",
                between=_between(nodes, index, waits),
                why=_why(nodes, index, waits),
            )

    def _collective(self, node: FxNode, op: str, graph: FxGraph, *, is_backward: bool) -> Collective:
        group = next(
            # The group is the last text among the arguments of these ops.
            (text for text in reversed(_QUOTED.findall(node.args)) if text not in _REDUCTIONS),
            "",
        )
        _, size = self._names.get(group, ("", None))
        inputs = [each for name in node.uses if (each := graph.node(name)) is not None]
        # A gather has the whole at its end, a reduce-scatter at its start.
        moved = [_bytes(each.type, self._graph.values) for each in (node, *inputs)]
        sizes = [each for each in moved if each is not None]
        if not size:
            size = None
            if group == "0":
                size = self._world
        dtype = ""
        if node.type is not None:
            dtype = _SHORT.get(node.type.dtype, node.type.dtype)
        return Collective(
            op=op,
            group=_group_name(group, self._names),
            group_size=size,
            bytes=max(sizes, default=None),
            dtype=dtype,
            part="backward" if is_backward else "forward",
            file=None,
            line=None,
            origin=CollectiveOrigin.USER,
            compiled=True,
            graph=self._graph.id,
        )

    def _lines(self, part: Stage | None) -> dict[str, list[tuple[str, ...]]]:
        """Return the user's lines of each library kernel's calls, in order, by name."""
        stages = [Stage.FORWARD, Stage.INFERENCE]
        if part is Stage.BACKWARD:
            stages = [Stage.BACKWARD]
        return {
            each.name: [launch.lines for launch in each.launches]
            for each in self._session.kernels
            if each.graph == self._graph.id and each.stage in stages and each.language == "external"
        }

    def _place(
        self, node: FxNode, lines: Mapping[str, list[tuple[str, ...]]], seen: Counter[str]
    ) -> tuple[str | None, int | None]:
        """Return the user's line of a collective: that of the node, or that of the call of its kernel."""
        if node.at is not None and not _is_torchs(node.at.file):
            return node.at.file, node.at.line
        calls = lines.get(node.target, [])
        number_of_call = seen[node.target]
        place = ""
        if number_of_call < len(calls) and calls[number_of_call]:
            place = calls[number_of_call][0]
        file, _, line = place.rpartition(":")
        if file and line.isdecimal():
            return (file, int(line))
        return (None, None)

    def _origin(self, node: FxNode) -> CollectiveOrigin:
        """Return who put a collective into the graph, by the innermost line that torch knows for it."""
        if node.at is not None and "torch/distributed/fsdp/" in node.at.file:
            return CollectiveOrigin.FSDP
        if node.at is not None and "torch/distributed/tensor/" in node.at.file:
            return CollectiveOrigin.DTENSOR
        traced = self._graph.first(GraphStage.DYNAMO)
        if traced is None:
            return CollectiveOrigin.USER
        if any(_is_users(each, node) for each in traced.everything()):
            return CollectiveOrigin.USER
        # DTensor communicates below Dynamo's graph, at the line of the user's op.
        has_dtensor = any(each.type is not None and each.type.wrapper == "DTensor" for each in traced.everything())
        calls_dtensor = any("distributed.tensor" in each.target or "DTensor" in each.target for each in traced.nodes)
        if has_dtensor or calls_dtensor:
            return CollectiveOrigin.DTENSOR
        return CollectiveOrigin.USER


def _is_torchs(file: str) -> bool:
    return "/torch/" in file or file.startswith("torch/")


def _is_users(traced: FxNode, node: FxNode) -> bool:
    """Whether Dynamo traced a call of a collective at the line of a node."""
    is_collective = "c10d" in traced.target or "_functional_collectives" in traced.target
    return is_collective and traced.at is not None and node.at is not None and traced.at.line == node.at.line


def _bytes(kind: TensorType | None, values: Mapping[str, str]) -> int | None:
    if kind is None:
        return None
    item = item_bytes(kind.dtype)
    total = 1.0
    if item is not None:
        total = item
    for size in kind.sizes:
        known = number(size, values)
        if known is None:
            return None
        total *= known
    if item is None:
        return None
    return int(total)


def _wait_of(nodes: list[FxNode], index: int) -> int | None:
    """Return the index of the node that waits for a collective; some return several tensors."""
    names = {nodes[index].name}
    for later, node in enumerate(nodes[index + 1 :], index + 1):
        if not names & set(node.uses):
            continue
        if _WAIT in node.target:
            return later
        # A coalesced collective returns a list, of which each part is waited for.
        if "getitem" in node.target:
            names.add(node.name)
    return None


def _computes(node: FxNode) -> bool:
    is_collective = _COLLECTIVE.match(node.target) is not None
    return not is_collective and not any(op in node.target for op in _LAYOUT)


def _between(nodes: list[FxNode], start: int, wait: int | None) -> int | None:
    if wait is None:
        return None
    return sum(map(_computes, nodes[start + 1 : wait]))


def _why(nodes: list[FxNode], start: int, wait: int | None) -> str:
    """Say what keeps other ops from running while a collective does, as far as the graph shows it."""
    if wait is None or _between(nodes, start, wait):
        return ""
    made = {nodes[start].name, nodes[wait].name}
    for node in nodes[start + 1 : wait]:
        if made & set(node.uses):
            made.add(node.name)
    free = 0
    needs = set(made)
    for node in nodes[wait + 1 :]:
        if needs & set(node.uses):
            needs.add(node.name)
        # It needs nothing of the collective, also not through others.
        elif _computes(node):
            free += 1
    if not free:
        return "every later op of the graph needs its result"
    later = count(free, "later op")
    return f"the graph waits at once, although {later} of it {'does' if free == 1 else 'do'} not need the result"
