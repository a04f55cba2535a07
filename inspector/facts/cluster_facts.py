"""What one rank of a virtual cluster (`--world N`) set up, and which collectives it called outside of graphs."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.wire import Integer, OfGraph, Record

RANKS_PER_NODE = 8
"""How many ranks torchrun is assumed to start on a node, as many as a node with GPUs usually has."""


class MeshDim(Struct, frozen=True):
    """One dimension of the mesh that `--mesh` names."""

    name: str
    size: Integer


class RankBegan(Record, frozen=True):
    """The process runs as one rank of a job that has no other process."""

    KIND: ClassVar[str] = "rank_began"
    rank: Integer
    world: Integer
    mesh: tuple[MeshDim, ...] = ()
    """The mesh of the command line; empty: the program's own."""


class MeshMade(Record, frozen=True):
    """The program made a device mesh."""

    KIND: ClassVar[str] = "mesh_made"
    shape: tuple[Integer, ...]
    names: tuple[str, ...]
    """Of its dimensions; empty: they have none."""
    coordinate: tuple[Integer, ...]
    """Where this rank is in it; empty: it is not in it."""
    ranks: tuple[Integer, ...]
    """Flat, in the order of the mesh."""
    groups: tuple[str, ...]
    """Torch's name of the process group of each dimension."""
    file: str
    line: Integer


class GroupMade(Record, frozen=True):
    """The program made a process group that this rank is in."""

    KIND: ClassVar[str] = "group_made"
    name: str
    ranks: tuple[Integer, ...]
    """Empty: all ranks."""


class StageMade(Record, frozen=True):
    """The program made a stage of a pipeline."""

    KIND: ClassVar[str] = "stage_made"
    index: Integer
    stages: Integer
    """How many the pipeline has."""
    group: str
    """Torch's name of the process group whose ranks have the stages."""


class UnevenShard(Record, frozen=True):
    """A dimension that does not divide among the ranks that shard it, so that their shards differ."""

    KIND: ClassVar[str] = "uneven_shard"
    size: Integer
    parts: Integer


class CollectiveOrigin(StrEnum):
    """Who put a collective into the program."""

    FSDP = "fsdp"
    DDP = "ddp"
    DTENSOR = "dtensor"
    USER = "user"
    PASS = "pass"
    """A pass of Inductor, which merged or moved collectives of the graph."""


# The tag is for a session in the cache, whose `calls` have two kinds in one list; the log has them apart.
class CollectiveCalled(Record, frozen=True, tag="collective"):
    """A collective that ran outside of a graph."""

    KIND: ClassVar[str] = "collective_called"
    op: str
    group: str
    """Torch's name of the process group."""
    group_size: Integer
    bytes: Integer
    """The larger one of what goes in and what comes out on this rank."""
    dtype: str
    is_backward: bool
    file: str
    line: Integer
    """The innermost line of the user; in a backward, which has none, that of the wrapped module if it is known."""
    origin: CollectiveOrigin
    bucket: tuple[str, ...] = ()
    """The parameters whose shards or gradients travel together."""
    change: str = ""
    """For a DTensor, its placements before and after."""
    reduction: str = ""
    """Such as `sum`; empty: none, or not known."""
    waited: str = ""
    """`file:line` that waited for it; empty: nothing that Python sees."""
    is_joined: bool = False
    """Whether torch's `Join` asks which ranks still have inputs: what this one sends from then on depends on them."""


class GraphCalled(OfGraph, frozen=True, kw_only=True, tag="graph"):
    """A compiled graph ran: what it communicates stands in its own records."""

    KIND: ClassVar[str] = "graph_called"
    is_backward: bool


class CollectivesCut(Record, frozen=True):
    """The program went on to communicate; nothing more of it was recorded."""

    KIND: ClassVar[str] = "collectives_cut"
    most: Integer


class ClusterFacts(Struct, frozen=True):
    """What a Session keeps of a rank of a virtual cluster."""

    rank: int
    world: int
    meshes: tuple[MeshMade, ...] = ()
    uneven: tuple[UnevenShard, ...] = ()
    calls: tuple[CollectiveCalled | GraphCalled, ...] = ()
    """In order, of the compiled calls of a model file's scenarios, or of the program."""
    cut_after: int | None = None
    """After how many the record of calls ends; None: it is whole."""
    groups: tuple[GroupMade, ...] = ()
    stages: tuple[StageMade, ...] = ()
    """The stages of pipelines that this rank has."""
    mesh: tuple[MeshDim, ...] = ()
    """The mesh of the command line; empty: the program's own."""
