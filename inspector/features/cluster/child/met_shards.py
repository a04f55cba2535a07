"""Record the meshes that the program makes, and dimensions that do not divide among their ranks."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.callers import callers, folder_of_torch
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.cluster_facts import MeshMade, UnevenShard
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.runs.capture_request import Options

_FSDP = "torch.distributed.fsdp._fully_shard._fsdp_param"


def met_shards(options: Options) -> Source:
    """Make the source that records what decides which ranks differ, while the program sets up."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            # A program whose mesh leaves ranks out says so with --mesh, which names the mesh of the job.
            shards = _Shards(recorder, patches, None if options.mesh else options.world)
            when("torch.distributed.device_mesh", shards.watch_meshes)
            when(_FSDP, shards.watch_fsdp)
            when("torch.distributed.tensor.placement_types", shards.watch_placements)
            yield

    return source


class _Shards:
    """Hooks what makes meshes and shards."""

    def __init__(self, recorder: Recorder, patches: ExitStack, world: int | None) -> None:
        self._recorder = recorder
        self._world = world
        self._patches = patches
        self._seen: set[Record] = set()

    def _add(self, record: Record) -> None:
        if record not in self._seen:
            self._seen.add(record)
            self._recorder.add(record)

    def _uneven(self, size: Any, parts: Any) -> None:
        if isinstance(size, int) and isinstance(parts, int) and parts > 0 and size % parts:
            self._add(UnevenShard(size, parts))

    def watch_meshes(self, module: ModuleType) -> None:
        """Record each mesh that has process groups."""
        kind: Any = getattr(module, "DeviceMesh", None)
        if kind is None or not hasattr(kind, "get_coordinate"):  # a torch without torch.distributed
            return
        original = kind.__init__

        def init(mesh: Any, *args: Any, **kwargs: Any) -> None:
            original(mesh, *args, **kwargs)
            # A program that takes a part of the ranks passes them to DeviceMesh itself.
            if sys._getframe(1).f_code.co_name == "init_device_mesh":
                self._check(mesh)
            with self._recorder.watching("a device mesh"):
                described = _described(mesh)
                if described is not None:
                    self._add(described)

        self._patches.enter_context(patched(kind, "__init__", init))

    def _check(self, mesh: Any) -> None:
        """Refuse a mesh of another number of ranks, as of a world that the program divides by with a rest.

        Raises:
            TargetError: it has another number.
        """
        shape = tuple(mesh.mesh.shape)
        if self._world is None or prod(shape) == self._world:
            return
        found = callers(sys._getframe(2), folder_of_torch())
        place = f"{found[-1].file}:{found[-1].line}" if found else "the program"
        sizes = " x ".join(map(str, shape))
        what = f"{place} makes a mesh of {sizes} = {prod(shape)} ranks, and --world is {self._world}"
        todo = f"use --world {prod(shape)}; or, if it leaves ranks out on purpose, add --mesh world={self._world}"
        self._recorder.add(Failure(FailurePhase.TARGET, "TargetError", what, todo=todo))
        raise TargetError(what, todo)

    def watch_fsdp(self, module: Any) -> None:
        """Record which parameters FSDP2 cannot divide (_fsdp_param.py, 2.11 to 2.13)."""
        original = module._chunk_with_empty

        def chunk(tensor: Any, num_chunks: int, dim: int) -> Any:
            self._uneven(tensor.size(dim), num_chunks)
            return original(tensor, num_chunks, dim)

        self._patches.enter_context(patched(module, "_chunk_with_empty", chunk))

    def watch_placements(self, module: Any) -> None:
        """Record which dimensions a DTensor cannot divide (placement_types.py, 2.11 to 2.13)."""
        original = module.Shard.local_shard_size_and_offset

        def size_and_offset(curr_local_size: Any, num_chunks: Any, rank: Any) -> Any:
            self._uneven(curr_local_size, num_chunks)
            return original(curr_local_size, num_chunks, rank)

        self._patches.enter_context(patched(module.Shard, "local_shard_size_and_offset", staticmethod(size_and_offset)))


def _described(mesh: Any) -> MeshMade | None:
    groups = getattr(mesh, "_dim_group_names", None)
    if groups is None:  # a part of another mesh, which has the groups
        return None
    found, ranks = callers(sys._getframe(2), folder_of_torch()), mesh.mesh
    file, line = (found[-1].file, found[-1].line) if found else ("", 0)
    return MeshMade(
        shape=tuple(ranks.shape),
        names=tuple(mesh.mesh_dim_names or ()),
        coordinate=tuple(mesh.get_coordinate() or ()),
        ranks=tuple(ranks.flatten().tolist()),
        groups=tuple(map(str, groups)),
        file=file,
        line=line,
    )
