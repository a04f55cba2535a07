"""Say which ranks of a virtual job are taken for alike.

Two ranks are taken for alike if they have the same position in each dimension of each mesh: first, in the middle, or
last; the same size of every shard that does not divide; the same stage of a pipeline (a dimension whose process group
torch's stages use, or that is named so); and if the program compares its rank with neither. `ctrace ranks` checks that
by a sample.
"""

import re
from collections.abc import Collection, Sequence

from ctrace.inspector.facts.cluster_facts import RANKS_PER_NODE, ClusterFacts, MeshDim, MeshMade
from ctrace.inspector.facts.session import Session
from ctrace.inspector.knowledge.counting import count

_STAGE = re.compile(r"pp|pipe|stage", re.IGNORECASE)
# Chosen: pipelines have up to some tens of stages; a mesh dimension that is larger is no pipeline, and each stage is a
# capture.
_MOST_STAGES = 64
_WORLD = "0"
"""Torch's name of the group of all ranks (distributed_c10d.py, 2.11 to 2.13)."""
_MOST_COUNTED = 65_536
"""Above this world, ranks are not counted: that takes seconds."""


class RankClasses:
    """Says which ranks are taken for alike."""

    def __init__(
        self, world: int, cluster: ClusterFacts, mesh: tuple[MeshDim, ...] = (), named: Sequence[int] = ()
    ) -> None:
        self._world = world
        self._named = frozenset(named)
        self._uneven = cluster.uneven
        made = cluster.meshes
        if mesh or not made:
            sizes = mesh or (MeshDim("world", world),)
            made = (_regular(sizes, world),)
        staged = frozenset(each.group for each in cluster.stages)
        # The same mesh made twice would be compared twice for every rank.
        self._meshes = tuple(dict.fromkeys((each.shape, _stages(each, staged), each.ranks) for each in made))
        self._places = [{rank: index for index, rank in enumerate(ranks)} for _, _, ranks in self._meshes]
        self._by_class: dict[object, int] = {}
        for rank in range(world):
            self._by_class.setdefault(self._class_of(rank), rank)

    @property
    def distinct(self) -> tuple[int, ...]:
        """One rank of each class, the lowest."""
        return tuple(sorted(self._by_class.values()))

    def representative(self, rank: int) -> int:
        """Return the rank that stands for another one."""
        return self._by_class[self._class_of(rank)]

    def stage_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages of pipelines that a rank is in: ranks of different stages compile different code."""
        return tuple(
            at
            for (shape, stages, _), places in zip(self._meshes, self._places, strict=True)
            for at, _, is_stage in _coordinates(places.get(rank), shape, stages)
            if is_stage
        )

    def numbers_of(self, rank: int) -> frozenset[str]:
        """Return the numbers that say where a rank is: itself, on its node, and in each dimension of each mesh."""
        found = {rank, rank % min(RANKS_PER_NODE, self._world)}
        for (shape, stages, _), places in zip(self._meshes, self._places, strict=True):
            found |= {at for at, _, _ in _coordinates(places.get(rank), shape, stages)}
        return frozenset(map(str, found))

    def _class_of(self, rank: int) -> object:
        if rank in self._named:
            return rank
        return tuple(
            self._positions(places.get(rank), shape, stages)
            for (shape, stages, _), places in zip(self._meshes, self._places, strict=True)
        )

    def _positions(self, place: int | None, shape: tuple[int, ...], stages: tuple[bool, ...]) -> object:
        if place is None:
            return None
        return tuple(
            (self._position(at, size, is_stage=is_stage), self._shards(at, size))
            for at, size, is_stage in _coordinates(place, shape, stages)
        )

    def _position(self, at: int, size: int, *, is_stage: bool) -> object:
        if is_stage and size <= _MOST_STAGES:
            return at
        if at in (0, size - 1):
            if at:
                return "last"
            return "first"
        return "middle"

    def _shards(self, at: int, parts: int) -> tuple[int, ...]:
        """Return the sizes of this position's shards of dimensions that do not divide, as `torch.chunk` makes them."""
        sizes = []
        for each in self._uneven:
            if each.parts == parts:
                chunk = -(-each.size // parts)
                sizes.append(max(0, min(chunk, each.size - at * chunk)))
        return tuple(sizes)


def _stages(mesh: MeshMade, staged: Collection[str]) -> tuple[bool, ...]:
    """Say which dimensions of a mesh are those of a pipeline, by their groups or by their names."""
    groups = mesh.groups or ("",) * len(mesh.shape)
    if not mesh.groups and len(mesh.shape) == 1:
        # A mesh of one dimension over all ranks takes torch's default group (distributed/device_mesh.py, 2.13).
        groups = (_WORLD,)
    names = mesh.names or ("",) * len(mesh.shape)
    return tuple(group in staged or _STAGE.match(name) is not None for group, name in zip(groups, names, strict=False))


def _coordinates(place: int | None, shape: tuple[int, ...], stages: tuple[bool, ...]) -> list[tuple[int, int, bool]]:
    """Return position and size of each dimension for a flat place in a mesh, and whether it is one of stages."""
    found = []
    for index in range(len(shape) - 1, -1, -1):
        place, at = divmod(place or 0, shape[index])
        found.append((at, shape[index], index < len(stages) and stages[index]))
    return found[::-1]


def _regular(sizes: Sequence[MeshDim], world: int) -> MeshMade:
    return MeshMade(
        tuple(each.size for each in sizes), tuple(each.name for each in sizes), (), tuple(range(world)), (), "", 0
    )


def alike(cluster: ClusterFacts) -> int | None:
    """Return how many other ranks have the position of this one in each mesh; None: they cannot be counted."""
    if not 0 <= cluster.rank < cluster.world <= _MOST_COUNTED:  # a damaged log may say anything
        return None
    classes = RankClasses(cluster.world, cluster, cluster.mesh)
    lead = classes.representative(cluster.rank)
    return sum(classes.representative(rank) == lead for rank in range(cluster.world)) - 1


def rank_sentence(session: Session) -> str:
    """Say which rank of a virtual job a run shows; empty without such a job."""
    cluster = session.cluster
    if cluster is None:
        return ""
    others = alike(cluster)
    shown = f"Rank {cluster.rank} of {cluster.world}"
    if others is None or cluster.world == 1:
        return f"{shown}."
    number = "no other rank"
    if others:
        number = count(others, "other rank")
    place = "mesh" if cluster.mesh or cluster.meshes else "world"
    verb = "have" if others > 1 else "has"
    return f"{shown}; {number} {verb} the same position in the {place}: first, in the middle or last."
