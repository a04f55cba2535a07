"""Torch's own CUDA graph trees without a GPU: its decisions are real, warm-ups and recordings run on the CPU.

`CUDAGraphTreeManager._run` decides what to do by generations, by pending backwards, and by which results of earlier
calls are alive. All of that is Python and works on CPU tensors. Only what needs the device is replaced: the pool of
memory, and the two kinds of nodes, which here call the function and keep weak references to its results.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import torch
from torch._dynamo.mutation_guard import GenerationTracker
from torch._inductor import cudagraph_trees as trees
from torch._inductor.cudagraph_utils import FunctionID, PlaceholderInfo, WrappedFunction

from ctrace.inspector.capture.core.patch import patched


class WarmupNode(trees.CUDAWarmupNode):
    """A warm-up on the CPU."""

    def run(self, new_inputs: Any) -> Any:
        out = self.wrapped_function.model(new_inputs)
        self.outputs_weakrefs.extend(map(trees.map_to_ref, out))
        self.stack_traces = [None] * len(out)
        return out


class GraphNode(trees.CUDAGraphNode):
    """A recording on the CPU: each run writes to the same memory, as a replay does."""

    def __init__(
        self, function: Any, id_: Any, parent: Any, inputs: Any, _pool: Any, device: int, *_args: Any, **_kwargs: Any
    ) -> None:
        self.wrapped_function, self.id, self.device = function, id_, device
        self._parent = weakref.ref(parent) if parent is not None else None
        self.children = defaultdict(list)
        self.outputs_weakrefs = []
        self.path_weakrefs = [node.outputs_weakrefs for node in self._path_from_root]
        self.rerecord_if_static_inputs_change = True
        self.cudagraph_managed_idxs = [
            index for index, each in enumerate(inputs) if self._is_cuda_graph_recorded_tensor(each)
        ]
        static = {*function.static_input_idxs, *self.cudagraph_managed_idxs}
        self.static_input_idxs = self.tensor_static_input_idxs = list(static)
        self.static_input_data_ptrs = [
            each.data_ptr() if index in static else None for index, each in enumerate(inputs)
        ]
        self.preserved_aliased_inputs = [False] * len(inputs)
        self.memory: list[Any] = []
        self.expected_dead_indices_before_graph = self.expected_dead_indices_after_graph = []
        self.first = self.run(inputs)

    @property
    def live_indices_after_graph(self) -> list[tuple[int, int]]:  # type: ignore[override]
        return [(depth, at) for depth, each in enumerate(self.path_weakrefs) for at in range(len(each))]

    def run(self, new_inputs: Any) -> Any:
        known = {each.ctypes.data: each for node in self._path_from_root for each in vars(node)["memory"]}
        for index in self.cudagraph_managed_idxs:  # where torch drops them, they are still at their addresses
            new_inputs[index] = torch.from_numpy(known[self.static_input_data_ptrs[index]])
        results = [each.numpy() for each in self.wrapped_function.model(list(new_inputs))]
        new_inputs.clear()
        self.memory = self.memory or [each.copy() for each in results]
        for place, result in zip(self.memory, results, strict=True):
            place[...] = result
        out = [torch.from_numpy(place) for place in self.memory]  # a new storage at the same address
        self.outputs_weakrefs[:] = list(map(trees.map_to_ref, out))
        return out

    def run_first_inputs(self, _new_inputs: Any) -> Any:
        first, self.first = self.first, None
        return first


class Manager(trees.CUDAGraphTreeManager):
    """A manager without a device."""

    def __init__(self) -> None:
        self.roots = defaultdict(list)
        self.ids_to_funcs: dict[Any, Any] = {}
        self.ids_to_stack_traces = defaultdict(lambda: None)
        self.warmed_up_functions = torch.utils._ordered_set.OrderedSet()
        self.warned_functions = torch.utils._ordered_set.OrderedSet()
        self.warned_mutation = torch.utils._ordered_set.OrderedSet()
        self.graph: Any = SimpleNamespace()
        self.stream: Any = None
        self.cuda_graphs_thread_pool: Any = (0, 1)
        self.graph_counter, self.func_counter = count(0), count(0)
        self.warmup_node_counter = count(-1, -1)
        self.non_cudagraph_managed_mutation_hint = defaultdict(dict)
        self.num_rerecord = defaultdict(lambda: defaultdict(int))
        self.path_state = trees.ExecutionState.NONE
        self.device_index = 0
        self.current_node = None
        self.current_gen = -1
        self.debug_fail_counter = self.debug_checkpointing_counter = 0
        self.id_to_mode: dict[Any, Any] = {}
        self.id_to_compile_id = defaultdict(lambda: None)
        self.running_forwards_with_pending_backwards = False
        self.mode = None
        self.disable_invalidate_aliases = False

    def dealloc_current_path_weakrefs(self) -> None:
        """Do nothing: there is no pool whose memory would be used again."""

    def apply_checkpoint_execution_state_in_allocator(self) -> None:
        """Do nothing, as above."""

    def function(
        self,
        model: Callable[[list[Any]], Any],
        mode: str,
        *,
        static: tuple[int, ...] = (),
        mutated: tuple[int, ...] = (),
    ) -> Callable[[list[Any]], Any]:
        """Add a compiled function; a call of the result is a call of compiled code."""
        number = FunctionID(next(self.func_counter))
        names: list[Any] = []

        def boxed(inputs: list[Any]) -> Any:
            values = list(inputs)
            inputs.clear()
            return model(values)

        self.ids_to_funcs[number] = WrappedFunction(boxed, static, number, (), names, mutated)
        self.id_to_mode[number] = trees.CompilationMode[mode]

        def call(inputs: list[Any]) -> Any:
            names[:] = [PlaceholderInfo(f"arg{index}_1", None, [], None) for index in range(len(inputs))]
            return self.run(inputs, number)

        return call


def _same_places(tensors: Any, pointers: Any, indices: Any) -> bool:
    """Do what torch says that its function in C++ is equivalent to (`CUDAGraphNode.check_invariants`)."""
    return all(tensors[index].data_ptr() == pointers[index] for index in indices)


def new_step() -> None:
    """Begin another call of what `torch.compile` returned (`_TorchDynamoContext`, _dynamo/eval_frame.py)."""
    GenerationTracker.generation += 1


@contextmanager
def without_a_gpu() -> Iterator[Manager]:
    """Replace what needs a GPU, and yield a manager."""
    with ExitStack() as patches:
        patches.enter_context(patched(trees, "CUDAGraphNode", GraphNode))
        patches.enter_context(patched(trees, "CUDAWarmupNode", WarmupNode))
        patches.enter_context(patched(torch.cuda, "synchronize", lambda: None))
        patches.enter_context(patched(torch.cuda, "memory_snapshot", list))
        name = "_tensors_data_ptrs_at_indices_equal"
        if not hasattr(torch._C, name):  # a build without CUDA
            setattr(torch._C, name, _same_places)
            patches.callback(delattr, torch._C, name)
        yield Manager()
