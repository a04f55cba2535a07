"""What the allocator of a GPU had allocated at a measured peak, from its own history, by the user's line.

A computed peak has no workspace that a library takes inside of an operator, and such a workspace may be most of the
memory: that of a convolution in cuDNN. The allocator records each allocation with its Python stack (2.13,
cuda/memory.py, `_record_memory_history`), which leads through a line of the wrapper that Inductor generated. That line
names the buffer that the kernel or operator is for, and Inductor knows the graph node, and with it the line, of each.

    {"action": "alloc", "addr": 1024, "size": 512, "frames": [{"filename": ..., "line": 31, "name": "call"}]}
    {"action": "free_requested", "addr": 1024, "size": 512, "frames": []}

Sizes are those that were asked for. The allocator counts multiples of 512 bytes (2.13, c10/core/AllocatorConfig.h,
`kMinBlockSize`).
"""

import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.facts.memory_facts import AliveMemory
from ctrace.inspector.features.memory.child.planned_graphs import BufferFact, facts_of
from ctrace.inspector.features.memory.child.storage_ledger import (
    NOWHERE,
    CodeOrigin,
    Ledger,
    TrackedStorage,
    alive_of,
)

_BLOCK = 512
"""Bytes of the smallest block of the allocator, `kMinBlockSize`."""
_MOST_ENTRIES = 1_000_000
"""Of a step; the allocator forgets the oldest beyond (2.13, `max_entries`), and a peak of a part would be wrong."""
COPIES = "copies of inputs for CUDA graphs"
_RECORDS = "/torch/_inductor/cudagraph_trees.py"
"""Records CUDA graphs; what it allocates itself, and no wrapper below it, are copies of inputs (2.13,
`_allocate_and_copy_recording_inputs`)."""
_BUFFER = re.compile(r"^\s*(?:(?P<made>\w+) = |.*\bout=(?P<out>\w+))")
_CALL = re.compile(r"(?:^|= )\s*(?P<name>[\w.\[\]]+)\(")


class Allocation(Struct, frozen=True):
    """Memory that was allocated in a step and in use at its peak."""

    bytes: int
    frames: tuple[tuple[str, int, str], ...] = ()
    """File, line and function; the innermost first."""


class AllocatorPeak(Struct, frozen=True):
    """The moment of a step with the most memory."""

    released: int
    """The bytes that were allocated before the step, and freed in it before this moment."""
    alive: tuple[Allocation, ...]


class BufferOfLine(Struct, frozen=True):
    """What a line of a wrapper allocates."""

    name: str
    """The buffer that it is, or is for."""
    by: str
    """What runs there, such as `extern_kernels.convolution`."""
    fact: BufferFact | None


def allocator_peak(trace: Sequence[Mapping[str, Any]]) -> AllocatorPeak | None:
    """Return the peak of the entries of one device; None: there are so many that some may be gone."""
    if len(trace) >= _MOST_ENTRIES:
        return None
    now = most = until = 0
    for index, entry in enumerate(trace):
        now += _change(entry)
        if now > most:
            most, until = now, index + 1
    # A second pass, so that only the allocations up to the peak are kept, and not a copy at each new one.
    alive: dict[int, Allocation] = {}
    released = 0
    for entry in trace[:until]:
        if entry["action"] == "alloc":
            frames = tuple((each["filename"], each["line"], each["name"]) for each in entry.get("frames", ()))
            alive[entry["addr"]] = Allocation(_counted(entry["size"]), frames)
        # An address that is not alive was allocated before the recording began.
        elif entry["action"] == "free_requested" and alive.pop(entry["addr"], None) is None:
            released += _counted(entry["size"])
    return AllocatorPeak(released, tuple(alive.values()))


def _change(entry: Mapping[str, Any]) -> int:
    """Return by how much an entry changes what is in use: a block is free once that is requested."""
    match entry["action"]:
        case "alloc":
            return _counted(entry["size"])
        case "free_requested":
            return -_counted(entry["size"])
        case _:
            return 0


def _counted(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


class AllocatorHistory:
    """Records what a GPU allocates, and knows the buffers of the code that was built meanwhile."""

    def __init__(self, index: int = 0) -> None:
        """Follow the GPU of this number."""
        self.peak: AllocatorPeak | None = None
        self._index = index
        self._facts: dict[str, dict[str, BufferFact]] = {}

    @contextmanager
    def of_built_code(self) -> Iterator[None]:
        """Keep what Inductor knows of the buffers of each graph that is built in the block."""
        from torch._functorch import config as of_autograd
        from torch._inductor import config
        from torch._inductor.graph import GraphLowering

        original = GraphLowering.compile_to_module

        def compile_to_module(graph: Any) -> Any:
            module = original(graph)
            self._facts[str(module.__file__)] = dict(facts_of(graph))
            return module

        with ExitStack() as stack:
            # Of code that comes from a cache, nothing would be known.
            stack.enter_context(config.patch(fx_graph_cache=False, fx_graph_remote_cache=False))
            stack.enter_context(of_autograd.patch(enable_autograd_cache=False))
            stack.enter_context(patched(GraphLowering, "compile_to_module", compile_to_module))
            yield

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what the GPU allocates in the block."""
        import torch

        memory: Any = torch.cuda.memory
        memory._record_memory_history("all", context="alloc", stacks="python", max_entries=_MOST_ENTRIES)
        try:
            yield
            traces = memory._snapshot()["device_traces"]
        finally:
            memory._record_memory_history(None)
        self.peak = allocator_peak(traces[self._index])

    def alive(
        self, before: Mapping[TrackedStorage, int], ledger: Ledger, is_users: Callable[[str], bool]
    ) -> tuple[AliveMemory, ...]:
        """Return what is alive at the measured peak, by kind and line, the largest first.

        Args:
            before: what was alive before the step.
            ledger: knows the kinds of what the step computes.
            is_users: whether a file is the user's.
        """
        known: dict[tuple[Any, ...], list[TrackedStorage]] = {}
        for each in ledger.changes:
            stored, size = each.stored, _counted(each.bytes)
            # By buffer and by line: a line of eager code has no buffer, and a buffer's line may be unknown.
            for key in ((stored.name, size), (*stored.origin[:2], size)):
                known.setdefault(key, []).append(stored)
        found = dict(before)
        if self.peak is not None:
            for allocation in self.peak.alive:
                found[self._storage(allocation, known, is_users)] = allocation.bytes
        return alive_of(found)

    def _storage(
        self,
        allocation: Allocation,
        known: Mapping[tuple[Any, ...], list[TrackedStorage]],
        is_users: Callable[[str], bool],
    ) -> TrackedStorage:
        """Say what an allocation is: what the step was computed to allocate for the line, else memory of a library."""
        size = allocation.bytes
        for file, line, function in allocation.frames:
            if file in self._facts:
                buffer = buffer_at(linecache.getline(file, line), self._facts[file])
                if buffer.fact is None:
                    origin = NOWHERE
                else:
                    origin = buffer.fact.origin
                if buffer.name:
                    twins = known.get((buffer.name, size), ())
                else:
                    twins = ()
                twin = next((each for each in twins if origin in (each.origin, NOWHERE)), None)
                if twin is not None:
                    return _like(twin, size)
                return _inside(size, origin, buffer.by)
            if file.endswith(_RECORDS):
                return TrackedStorage(size, "cuda", NOWHERE, COPIES, (), "", {"graph_pool"})
            if is_users(file):
                twin = next(iter(known.get((file, line, size), ())), None)
                if twin is not None:
                    return _like(twin, size)
                return _inside(size, CodeOrigin(file, line, function), "")
        return _inside(size, NOWHERE, "")


def _like(stored: TrackedStorage, size: int) -> TrackedStorage:
    """Return a storage of the same kind, for an allocation that the step was computed to make."""
    return TrackedStorage(
        size, stored.device, stored.origin, stored.op, stored.shape, stored.dtype, set(stored.kinds), name=stored.name
    )


def _inside(size: int, origin: CodeOrigin, by: str) -> TrackedStorage:
    """Return memory that is no tensor of the graph, such as a workspace."""
    return TrackedStorage(size, "cuda", origin, f"inside of {by}" if by else "", (), "", set())


def buffer_at(text: str, facts: Mapping[str, BufferFact]) -> BufferOfLine:
    """Read a line of a wrapper: the buffer that it makes or writes, and what runs there."""
    call = _CALL.search(text)
    by = ""
    if call is not None:
        by = call["name"]
    named = _BUFFER.match(text)
    name = ""
    if named is not None:
        name = named["made"] or named["out"]
    return BufferOfLine(name, by, facts.get(name))
