"""Run as one rank of a job without the others: process groups of any backend are torch's fake ones.

Torch's fake process group (torch/testing/_internal/distributed/fake_pg.py, 2.11 to 2.13) answers each collective with
what this rank has, so that sizes are right and values are not. What needs a value of a peer stops the program, at the
line that asks: an object that another rank sends, a key of a store that another rank writes.

Only what makes a group, and what asks a store, is replaced. All the rest, such as the name and the order of groups, is
torch's own code, so that compiled code refers to the groups that a real job has.

Stages of a pipeline are recorded, and agree on their shapes as all of them would (`stage_votes`). Before its first
step, a schedule asks all stages whether the program gave them the shapes of what they exchange: a product of ones and
zeros travels through the ranks and back (torch/distributed/pipelining/stage.py, 2.13). What a fake process group
receives is zero, so that every stage would wait for shapes that another one sends as objects. Peers run the same
program: they are taken to vote as the stages of this rank do. Earlier torch does not vote; each stage then looks at its
own shapes.

Meshes that the program makes are recorded, and dimensions that do not divide among their ranks (`met_shards`). On a
mesh of GPUs, DTensor communicates as it does there, although its tensors are on the CPU (`GpuMeshes`). Torch chooses by
the type of a mesh's devices (2.11 to 2.13). On the CPU it turns one sharded dimension into another by a gather of all
parts, as gloo lacked all-to-all (distributed/tensor/_collective_utils.py), and it shares no state of random generators
(distributed/tensor/_random.py), which on GPUs the first rank sends to all before the first random op on a DTensor.

A rank ends at the program's line if an exception only says what a rank without peers, or without a GPU, lacks
(`refusing_what_lacks`).
"""

import dis
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import wraps
from math import prod
from pickle import UnpicklingError
from types import FrameType, ModuleType
from typing import Any

from ctrace.inspector.capture.calls.answering import place_of_failure
from ctrace.inspector.capture.core.callers import callers, folder_of_torch, without_our_frames
from ctrace.inspector.capture.core.exception_text import kind_and_message, message
from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.cluster_facts import GroupMade, MeshMade, RankBegan, StageMade, UnevenShard
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.features.cluster.child.called_collectives import CalledCollectives
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.options import Assumption, parse_assumption
from ctrace.inspector.runs.virtual_world import parse_mesh

_STATE_BYTES = 16
"""The state of a generator of a GPU: its seed and its offset (distributed/tensor/_random.py)."""
_C10D = "torch.distributed.distributed_c10d"
_RECEIVED = {
    "all_gather_object": "the objects of all ranks",
    "gather_object": "the objects of all ranks",
    "scatter_object_list": "an object from rank {src}",
    "broadcast_object_list": "objects from rank {src}",
    "recv_object_list": "objects from rank {src}",
}
"""Functions that bring values of peers, and what they bring (distributed_c10d.py, 2.11 to 2.13)."""
_STORES = ("TCPStore", "FileStore")
_FOLDERS = ("cuda/", "accelerator/", "distributed/_symmetric_memory/")
"""Folders of torch whose functions raise without a GPU (2.11 to 2.13)."""
_NCCL = re.compile(r"\bNCCL\b|ProcessGroupNCCL|not safe to split|not support splitting")
_SAYS = re.compile(
    rf"{_NCCL.pattern}|not compiled with CUDA|Cannot access accelerator device|only work with GPU|input tensor to be on"
)
"""What torch says where C++ code refuses, or where this build lacks a class or a backend (2.11 to 2.13)."""
_ON_CPU = (
    "a rank's tensors are on the CPU, which has no such thing: leave that line out under --world, or let the program "
    "find no GPU (CUDA_VISIBLE_DEVICES=)"
)
_WITHOUT_NCCL = "use that only where torch has NCCL: if torch.distributed.is_nccl_available()"
_UNREADABLE = (EOFError, UnpicklingError)
"""What reading an object raises that another rank would have sent: the bytes of a fake group are zeros."""


class GpuMeshes:
    """Knows whether the program has made a mesh of GPUs; then all its meshes with DTensors are taken for such."""

    def __init__(self) -> None:
        self.is_made = False
        self._is_shared = False

    @contextmanager
    def hook(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Install the hooks."""
        with ExitStack() as patches:

            def placements(module: ModuleType) -> None:
                with recorder.watching("redistributions on GPUs"):
                    name = "shard_dim_alltoall"
                    patches.enter_context(patched(module, name, self._exchanging(getattr(module, name))))

            def dispatch(module: ModuleType) -> None:
                with recorder.watching("random ops on GPUs"):
                    name = "is_rng_supported_mesh"
                    patches.enter_context(patched(module, name, self._sharing(getattr(module, name))))

            when("torch.distributed.tensor.placement_types", placements)
            when("torch.distributed.tensor._dispatch", dispatch)
            yield

    def _exchanging(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def exchange(input: Any, gather_dim: int, shard_dim: int, mesh: Any, mesh_dim: int) -> Any:
            if not self.is_made or mesh.device_type != "cpu":
                return original(input, gather_dim, shard_dim, mesh, mesh_dim)
            from torch.distributed.tensor import _collective_utils

            # A simulation of all ranks in one process takes the way of GPUs, too; a mesh in a trace cannot be changed.
            with patched(_collective_utils, "local_tensor_mode", lambda: True):
                return original(input, gather_dim, shard_dim, mesh, mesh_dim)

        return exchange

    def _sharing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def is_supported(mesh: Any) -> Any:
            if not self.is_made or mesh.device_type != "cpu":
                return original(mesh)
            import torch

            is_traced = torch.compiler.is_compiling() or torch._guards.TracingContext.try_get() is not None
            # Once, as in a program with peers; in a trace, the collective would become a part of the graph.
            if not self._is_shared and not is_traced:
                self._is_shared = True
                with torch.no_grad():
                    torch.distributed.broadcast(torch.zeros(_STATE_BYTES, dtype=torch.uint8), 0)
            return False

        return is_supported


def lone_rank(options: Options, calls: CalledCollectives) -> Hook:
    """Make the hook that lets the program believe in its peers."""

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        rank, world = options.rank or 0, options.world or 1
        recorder.add(RankBegan(rank, world, parse_mesh(options.mesh) if options.mesh else ()))
        with ExitStack() as patches:

            def install(c10d: ModuleType) -> None:
                try:
                    peers = _Peers(rank, world, tuple(map(parse_assumption, options.assume)), recorder)
                    for name, value in peers.replaced(c10d, calls):
                        patches.enter_context(patched(c10d, name, value))
                except Exception as error:  # the program would wait for ranks that do not exist
                    what = f"no virtual rank with this torch: {kind_and_message(error)}"
                    todo = "use a torch that ctrace supports: ctrace doctor"
                    recorder.add(Failure(FailurePhase.TARGET, "TargetError", what, todo=todo))
                    raise SystemExit(2) from None
                # `torch.distributed` takes names from this module when it is imported, perhaps after this.
                when("torch.distributed", lambda module: _same_names(module, c10d, patches))

            when(_C10D, install)
            when("torch.distributed", lambda module: _refuse_none(module, recorder))
            when("torch.multiprocessing", lambda package: _spawn_one(package, rank, patches))
            yield

    return hook


def _refuse_none(module: Any, recorder: Recorder) -> None:
    """End the run if this torch was built without torch.distributed."""
    if not module.is_available():
        todo = "install a torch that has it: torch.distributed.is_available() tells"
        what = "this torch was built without torch.distributed, so it has no ranks"
        recorder.add(Failure(FailurePhase.TARGET, "TargetError", what, todo=todo))


def _same_names(module: ModuleType, c10d: ModuleType, patches: ExitStack) -> None:
    # A name that was taken before still stands for torch's own function, which would wait for peers.
    for name in (*_RECEIVED, *_STORES, "monitored_barrier", "init_process_group"):
        if hasattr(module, name) and hasattr(c10d, name) and getattr(module, name) is not getattr(c10d, name):
            patches.enter_context(patched(module, name, getattr(c10d, name)))


def _spawn_one(package: ModuleType, rank: int, patches: ExitStack) -> None:
    """Let `torch.multiprocessing.spawn` call its function for this rank alone, in this process."""

    def one(fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, **_kwargs: Any) -> None:
        fn(rank % nprocs, *args)

    patches.enter_context(patched(package, "spawn", one))


def _without_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `init_process_group` without the check that the GPU of this rank is there: no group uses it."""
    import torch

    @wraps(original)
    def init(*args: Any, device_id: Any = None, **kwargs: Any) -> Any:
        # Without a GPU, torch refuses to bind a group to one.
        if torch.cuda.is_available():
            kwargs["device_id"] = device_id
        return original(*args, **kwargs)

    return init


class _Peers:
    """Stands for all other ranks."""

    def __init__(self, rank: int, world: int, assumptions: tuple[Assumption, ...], recorder: Recorder) -> None:
        self._recorder = recorder
        self._rank = rank
        self._world = world
        self._assumptions = assumptions

    def replaced(self, c10d: Any, calls: CalledCollectives) -> Iterator[tuple[str, Any]]:
        """Yield what to put in the place of names of the module."""
        yield "init_process_group", _without_device(c10d.init_process_group)
        yield "_new_process_group_helper", self._group_maker(c10d, calls)
        yield "rendezvous", self._rendezvous
        yield "monitored_barrier", lambda *_args, **_kwargs: None
        # Torch warns about NCCL in a build without it, where no rank of the job would.
        yield "_get_default_timeout", lambda _backend: c10d.default_pg_timeout
        for name in _STORES:
            if hasattr(c10d, name):
                yield name, self._store
        for name, brought in _RECEIVED.items():
            if hasattr(c10d, name):
                yield name, self._receiver(c10d, name, brought)

    def _rendezvous(self, *_args: Any, **_kwargs: Any) -> Iterator[tuple[Any, int, int]]:
        """Meet nobody (torch/distributed/rendezvous.py)."""
        yield self._store(), self._rank, self._world

    def _store(self, *_args: Any, **_kwargs: Any) -> Any:
        return lone_store(self)

    def _group_maker(self, c10d: Any, calls: CalledCollectives) -> Callable[..., Any]:
        original = c10d._new_process_group_helper

        def made(group_size: int, group_rank: int, ranks: list[int], backend: Any, *args: Any, **kwargs: Any) -> Any:
            import torch.testing._internal.distributed.fake_pg  # noqa: F401 - it registers the backend

            # No ranks means all of them: only the default group tells the size of the job.
            if not ranks:
                self._check(group_size, group_rank)
            # Options and devices are those of the real backend, which the fake one does not take.
            kwargs = {**kwargs, "backend_options": None, "device_id": None}
            group, store = original(group_size, group_rank, ranks, c10d.Backend(c10d.Backend.FAKE), *args[:2], **kwargs)
            if group is not c10d.GroupMember.NON_GROUP_MEMBER and store is not None:
                # The program asks for the backend by this name, as torch.distributed.get_backend does.
                c10d._world.pg_map[group] = (c10d.Backend(str(backend)), store)
                c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(c10d.Backend(str(backend))))
                self._recorder.add(GroupMade(str(group.group_name), tuple(map(int, ranks))))
            calls.begin()
            return group, store

        return made

    def _check(self, size: int, rank: int) -> None:
        """Refuse a program that makes another world than the one asked for.

        Raises:
            TargetError: it does.
        """
        if size != self._world:
            what = f"{user_place()} starts a job of {size} ranks, and --world is {self._world}"
            raise self._stopped(what, f"name that world: --world {size}, or let the program read WORLD_SIZE")
        if rank != self._rank:
            what = f"{user_place()} starts as rank {rank}, and this is rank {self._rank}"
            raise self._stopped(what, "let the program take its rank from the variable RANK, as torchrun gives it")

    def _receiver(self, c10d: Any, name: str, brought: str) -> Callable[..., Any]:
        original = getattr(c10d, name)

        def received(*args: Any, **kwargs: Any) -> Any:
            source = kwargs.get("src", args[1] if name == "broadcast_object_list" and len(args) > 1 else 0)
            # Its own objects are there already: it only sends them.
            if name == "broadcast_object_list" and (source or 0) == self._rank:
                return None
            # Only the destination gets something from its peers.
            if name == "gather_object" and kwargs.get("dst", 0) != self._rank:
                return None
            if args:
                values = args[0]
            else:
                values = next(iter(kwargs.values()))
            self.stop_or_fill(name, brought.format(src=source or 0), values)
            return None

        received.__name__, received.__doc__ = name, original.__doc__
        return received

    def stop_or_fill(self, call: str, brought: str, values: Any = None) -> Any:
        """Fill a list with what the user assumes for a line, or return it.

        Raises:
            TargetError: the user assumes nothing.
        """
        file, line = user_frame()
        # A stage of torch's asks here, so no line of the program could take an assumed value.
        if call == "recv_object_list" and _is_stages(sys._getframe(1)):
            what = f"{file}:{line} runs a pipeline stage that gets its shapes from another rank, and --world runs rank"
            todo = "give each stage its shapes: PipelineStage(..., input_args=..., output_args=...)"
            raise self._stopped(f"{what} {self._rank} without its peers", todo)
        for each in self._assumptions:
            if each.is_at(file, line, None):
                if isinstance(values, list):
                    values[:] = [each.values[0]] * len(values)
                return each.values[0]
        what = f"{file}:{line} needs {brought} ({call}), and --world runs rank {self._rank} without its peers"
        short = file.rpartition("/")[2]
        todo = f'say what it gets: --assume "{short}:{line}=VALUE", or leave the call out under --world'
        raise self._stopped(what, todo)

    def _stopped(self, what: str, todo: str) -> TargetError:
        """Record why the run cannot go on, even if the program catches the exception; return the exception."""
        self._recorder.add(Failure(FailurePhase.TARGET, "TargetError", what, todo=todo))
        return TargetError(what, todo)


def _is_stages(frame: FrameType | None) -> bool:
    """Whether a stage of a pipeline calls (torch/distributed/pipelining/stage.py, 2.11 to 2.13)."""
    folder = f"{folder_of_torch()}distributed/pipelining/"
    while frame is not None:
        if frame.f_code.co_filename.startswith(folder):
            return True
        frame = frame.f_back
    return False


def user_frame() -> tuple[str, int]:
    """Return file and line of the innermost frame outside of torch and ctrace."""
    found = callers(sys._getframe(1), folder_of_torch())
    if found:
        return (found[-1].file, found[-1].line)
    return ("<unknown>", 0)


def user_place() -> str:
    """Return the same as `file:line`."""
    file, line = user_frame()
    return f"{file}:{line}"


def lone_store(peers: _Peers) -> Any:  # noqa: C901 - a class, whose methods are one line each
    """Return a store that only this rank writes to; reading what another one would write stops the program."""
    from torch.distributed import distributed_c10d

    c10d: Any = distributed_c10d
    base: Any = c10d.Store

    class LoneStore(base):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self._values: dict[str, bytes] = {}

        def set(self, key: str, value: Any) -> None:
            # As torch's own stores, it keeps bytes.
            self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key: str) -> bytes:
            if key in self._values:
                return self._values[key]
            return str(peers.stop_or_fill("Store.get", f"the key {key!r} of a store")).encode()

        def add(self, key: str, amount: int) -> int:
            # The new count depends on what the peers added; adding 0 only asks, as a barrier does that polls.
            if amount:
                return int(peers.stop_or_fill("Store.add", f"the counter {key!r} of a store"))
            return int(self._values.get(key, b"0"))

        def compare_set(self, key: str, _expected: Any, _desired: Any) -> bytes:
            return str(peers.stop_or_fill("Store.compare_set", f"the key {key!r} of a store")).encode()

        def check(self, keys: list[str]) -> bool:
            # No key of a peer will come, so a program that polls gets that answer.
            return all(key in self._values for key in keys)

        def wait(self, keys: list[str], *_timeout: Any) -> None:
            for key in keys:
                if key not in self._values:
                    peers.stop_or_fill("Store.wait", f"the key {key!r} of a store")

        def delete_key(self, key: str) -> bool:
            return self._values.pop(key, None) is not None

        def num_keys(self) -> int:
            return len(self._values)

        def set_timeout(self, timeout: timedelta) -> None:
            """Wait for nothing."""

    return LoneStore()


# Stages of a pipeline receive the product of the earlier stages' votes, and send back what all decided (2.13,
# distributed/pipelining/stage.py); a rank without peers would wait for tensors that nobody sends.
_VOTE = "_warmup_forward_vote"
_RESULT = "_warmup_backward_result"


@contextmanager
def stage_votes(recorder: Recorder, when: When) -> Iterator[None]:
    """Install the hooks on torch's own stages."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            base: Any = getattr(module, "_PipelineStageBase", None)
            kind: Any = getattr(module, "PipelineStage", None)
            if base is not None:
                patches.enter_context(patched(base, "__init__", _recording(recorder, base.__init__)))
            if hasattr(kind, _VOTE) and hasattr(kind, _RESULT):
                patches.enter_context(patched(kind, _VOTE, _voting(module, getattr(kind, _VOTE))))
                patches.enter_context(patched(kind, _RESULT, _agreeing(getattr(kind, _RESULT))))

        when("torch.distributed.pipelining.stage", install)
        yield


def _recording(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    def init(stage: Any, *args: Any, **kwargs: Any) -> None:
        original(stage, *args, **kwargs)
        with recorder.watching("a stage of a pipeline"):
            from torch.distributed import distributed_c10d

            c10d: Any = distributed_c10d
            group = stage.group or c10d.group.WORLD
            recorder.add(StageMade(stage.stage_index, stage.num_stages, str(group.group_name)))

    return init


def _voting(module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def vote(stage: Any, has_backward: bool, received_acc: Any = None) -> Any:
        product = original(stage, has_backward, received_acc)
        # The vote of the stage before never comes, so this one's is taken alone.
        if received_acc is None and not stage.is_first:
            needs_dynamic = module.InferenceMode.needs_dynamic(stage._user_meta, has_backward)
            product.fill_(0 if needs_dynamic else 1)
        # The product of all stages of this rank is what their peers are taken to find, too.
        stage._ctrace_vote = product
        return product

    return vote


def _agreeing(original: Callable[..., Any]) -> Callable[..., Any]:
    def result(stage: Any, received_result: Any = None) -> Any:
        found = original(stage, received_result)
        # A stage of the same rank hands over a result that is known.
        is_from_peer = not stage.is_last and not stage._is_same_rank(stage.stage_index + 1)
        if is_from_peer:
            return found.copy_(stage._ctrace_vote)
        return found

    return result


_FSDP = "torch.distributed.fsdp._fully_shard._fsdp_param"


def met_shards(options: Options, meshes: GpuMeshes) -> Hook:
    """Make the hook that records what decides which ranks differ, while the program sets up."""

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            # A program whose mesh leaves ranks out says so with --mesh, which names the mesh of the job.
            shards = _Shards(recorder, patches, None if options.mesh else options.world, meshes)
            when("torch.distributed.device_mesh", shards.watch_meshes)
            when(_FSDP, shards.watch_fsdp)
            when("torch.distributed.tensor.placement_types", shards.watch_placements)
            yield

    return hook


class _Shards:
    """Hooks what makes meshes and shards."""

    def __init__(self, recorder: Recorder, patches: ExitStack, world: int | None, meshes: GpuMeshes) -> None:
        self._recorder = recorder
        self._meshes = meshes
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

        def init(mesh: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
            # Where there is no GPU, the tensors of a mesh of GPUs are on the CPU.
            is_missing = device_type == "cuda" and not sys.modules["torch"].cuda.is_available()
            self._meshes.is_made = self._meshes.is_made or is_missing
            original(mesh, "cpu" if is_missing else device_type, *args, **kwargs)
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
        place = "the program"
        if found:
            place = f"{found[-1].file}:{found[-1].line}"
        sizes = " x ".join(map(str, shape))
        what = f"{place} makes a mesh of {sizes} = {prod(shape)} ranks, and --world is {self._world}"
        todo = f"use --world {prod(shape)}; or, if it leaves ranks out on purpose, add --mesh world={self._world}"
        self._recorder.add(Failure(FailurePhase.TARGET, "TargetError", what, todo=todo))
        raise TargetError(what, todo)

    def watch_fsdp(self, module: Any) -> None:
        """Record which parameters FSDP2 cannot divide (_fsdp_param.py, 2.11 to 2.13)."""
        original = module._chunk_with_empty

        def chunk(tensor: Any, num_chunks: int, dim: int) -> Any:
            # Ranks then hold shards of other sizes, and only this division tells.
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


@contextmanager
def refusing_what_lacks() -> Iterator[None]:
    """Name the line of an exception in the block that only a missing GPU or a missing peer explains.

    Raises:
        TargetError: in place of such an exception.
    """
    try:
        yield
    # It names its line already.
    except TargetError:
        raise
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        raise refusal from error


def _refusal(error: Exception) -> TargetError | None:
    place = place_of_failure(error)
    if place is None or "torch" not in sys.modules:
        return None
    import torch

    at = f"{place[0]}:{place[1]}"
    # What a peer would have sent is empty here, and reading it as a pickled object fails.
    if isinstance(error, _UNREADABLE) and any(_is_distributed(frame) for frame, _at in _frames(error)):
        what = f"{at} needs an object that another rank sends, and --world runs a rank without its peers"
        return TargetError(what, "leave that line out under --world")
    # With a GPU, the error has another reason.
    if torch.cuda.is_available():
        return None
    owner = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and type(owner).__module__ == "torch._C._distributed_c10d":
        what = f"{at} asks a process group for {error.name}, which --world has not: its groups are torch's fake ones"
        return TargetError(what, f'ask first whether there is one: hasattr(..., "{error.name}")')
    if not _is_for_gpus(error):
        return None
    said = message(error).partition("\n")[0][:100]
    needs, todo = ("NCCL", _WITHOUT_NCCL) if _NCCL.search(said) else ("a GPU", _ON_CPU)
    return TargetError(f"{at} needs {needs}, and there is none here ({said})", todo)


def _is_for_gpus(error: Exception) -> bool:
    """Whether torch raised it below the user's line because of a GPU, or the line divides by the number of GPUs."""
    folder = folder_of_torch()
    frames = _frames(error)
    below = len(frames)
    # Torch's frames below the last line of the user: those above it only call the program.
    while below and frames[below - 1][0].f_code.co_filename.startswith(folder):
        below -= 1
    if any(_takes_gpu(frame, folder) for frame, _at in frames[below:]):
        return True
    if isinstance(error, ZeroDivisionError):
        return below == len(frames) > 0 and "device_count" in _names(*frames[-1])
    is_torchs = below < len(frames) or isinstance(error, AttributeError | ImportError | TypeError)
    return is_torchs and _SAYS.search(message(error)) is not None


def _frames(error: Exception) -> list[tuple[FrameType, int]]:
    """Return the frames of a traceback without ctrace's, and the offset at which each one is."""
    found, trace = [], without_our_frames(error.__traceback__)
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    return found


def _takes_gpu(frame: FrameType, torch_folder: str) -> bool:
    """Whether a frame of torch belongs to its code for GPUs, or holds the GPU that the program names."""
    if frame.f_code.co_filename.removeprefix(torch_folder).startswith(_FOLDERS):
        return True
    # A function for all devices does not say in its name that it was asked for a GPU.
    return any(_is_gpu(value) for value in frame.f_locals.values())


def _is_gpu(value: Any) -> bool:
    import torch

    return isinstance(value, torch.device) and value.type == "cuda"


def _is_distributed(frame: FrameType) -> bool:
    """Whether a frame belongs to torch's code for several ranks, other than that which reads files."""
    part = frame.f_code.co_filename.removeprefix(folder_of_torch())
    return part.startswith("distributed/") and not part.startswith("distributed/checkpoint/")


def _names(frame: FrameType, at: int) -> set[Any]:
    """Return the names that the running line of a frame uses."""
    instructions = list(dis.get_instructions(frame.f_code))
    line = next((each.positions.lineno for each in instructions if each.offset == at and each.positions), None)
    return {each.argval for each in instructions if each.positions and each.positions.lineno == line}
