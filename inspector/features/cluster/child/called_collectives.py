"""Record each collective that runs outside of graphs, and which graphs run between them.

A dispatch mode below autograd sees them all: those that the program calls, those of hooks of FSDP2, those of DTensor
and those of DDP's reducer, which is C++. It ignores compile internals, so that Dynamo compiles as without it
(`capture/dynamo/op_counts.py` has the reasons).

What a graph communicates is read from the graph, not here: it runs eagerly where no kernel is built, and then its
collectives are dispatched, too. In a forward, they run while the graph is called. In a backward, the node of autograd
that runs was made during a graph's call: its sequence number lies among those that the call took.

A custom operator is one op to the mode, and one node of a graph: what its Python code communicates is recorded here,
with the mode put back while that code runs.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from types import FrameType, ModuleType
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.core.callers import OURS, folder_of_torch
from ctrace.inspector.capture.core.files_read import stdlib_folders
from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder, compile_context
from ctrace.inspector.facts.cluster_facts import CollectiveCalled, CollectiveOrigin, CollectivesCut, GraphCalled

_NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "symm_mem")
_MOST = 20_000
"""How many calls to record: many steps of a training loop repeat the same ones."""
_NAMES = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "allgather_": "all_gather",
    "_allgather_base_": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "allgather_coalesced_": "all_gather_coalesced",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "scatter_": "scatter",
    "gather_": "gather",
    "recv_": "recv",
    "recv_any_source_": "recv",
}
"""The names of `torch.distributed`, by those of the ops below them (torch/csrc/distributed/c10d/Ops.cpp, 2.11 to
2.13)."""
_LOCAL = ("wait_tensor", "_wrap_tensor_autograd")
"""Ops of these namespaces that communicate nothing."""


class CalledCollectives:
    """Records the collectives of one process."""

    def __init__(self) -> None:
        self._begin: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Watch from now on: the program has made its first process group."""
        self._begin()

    @contextmanager
    def hook(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Install the hooks."""
        with ExitStack() as patches:
            calls = _Calls(recorder)

            def begin() -> None:
                # Once: a program makes many groups.
                self._begin = lambda: None
                mode = _dispatch_mode(calls)
                calls.mode = mode
                # Entered by hand, because it stays for the rest of the program, and no block of this code lasts that
                # long.
                mode.__enter__()
                patches.callback(_leave, mode)
                _wait_without_timeout(patches)

            self._begin = begin
            when("torch._dynamo.output_graph", lambda module: _follow_graphs(module, calls, patches))
            when("torch._library.custom_ops", lambda module: _look_into_operators(module, calls, patches))
            when("torch._dynamo.convert_frame", lambda module: _compile_without_mode(module, patches))
            yield
            self._begin = lambda: None


def _wait_without_timeout(patches: ExitStack) -> None:
    """Let the program wait with a timeout, which the work that `_with_result` makes refuses (2.11 to 2.13)."""
    from torch._C import _distributed_c10d

    work: Any = _distributed_c10d
    original = work.Work.wait
    patches.enter_context(patched(work.Work, "wait", lambda self, *_args, **_kwargs: original(self)))


def _leave(mode: Any) -> None:
    """End the mode, unless the program has left one of its own above it."""
    from torch.utils import _python_dispatch

    modes: Any = _python_dispatch
    if modes._get_current_dispatch_mode() is mode:
        mode.__exit__(None, None, None)


def _follow_graphs(module: ModuleType, calls: "_Calls", patches: ExitStack) -> None:
    kind: Any = module.OutputGraph
    original = kind.call_user_compiler

    def call(self: Any, gm: Any, example_inputs: Any) -> Any:
        # Dynamo asks for a compiled graph here, whatever the backend; called in place of it, the wrapper notes each
        # run.
        compiled = original(self, gm, example_inputs)
        if calls.has_groups:
            return calls.wrap(compiled, compile_context())
        return compiled

    patches.enter_context(patched(kind, "call_user_compiler", call))


def _compile_without_mode(module: ModuleType, patches: ExitStack) -> None:
    """Compile what runs in DDP's forward as if there were no dispatch mode, as Dynamo compiles everything else.

    Torch leaves modes on where DDP's optimizer takes the place of the backend; then guards name the mode's dispatch key
    (torch/_dynamo/convert_frame.py, CatchErrorsWrapper, 2.11 to 2.13).
    """

    def without_mode(kind: Any) -> property:
        original = kind._clone_with_backend.fget

        def clone(converter: Any) -> Callable[..., Any]:
            make = original(converter)

            def made(backend: Any) -> Callable[..., Any]:
                convert = make(backend)

                def called(frame: Any, cache_entry: Any, hooks: Any, frame_state: Any, skip: int = 0) -> Any:
                    from torch.utils import _python_dispatch

                    modes: Any = _python_dispatch
                    with modes._disable_current_modes():
                        # One frame more to leave out of torch's own stack: this one.
                        return convert(frame, cache_entry, hooks, frame_state, skip=skip + 1)

                return called

            return made

        return property(clone)

    for name in ("ConvertFrame", "ConvertFrameAssert"):
        kind = getattr(module, name)
        patches.enter_context(patched(kind, "_clone_with_backend", without_mode(kind)))


def _look_into_operators(module: Any, calls: "_Calls", patches: ExitStack) -> None:
    """Watch the Python code of custom operators (torch/_library/custom_ops.py, 2.11 to 2.13)."""
    kind: Any = module.CustomOpDef
    original = kind.register_kernel

    def register(operator: Any, device_types: Any, fn: Callable[..., Any] | None = None) -> Any:
        def inner(kernel: Callable[..., Any]) -> Any:
            # The program goes on with its own function, so a direct call of it is one of plain code.
            original(operator, device_types)(calls.watched_operator(kernel))
            return kernel

        if fn is None:
            return inner
        return inner(fn)

    patches.enter_context(patched(kind, "register_kernel", register))


class _Calls:
    """Turns dispatched ops into records."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Torch's folder is not known before the program imports it, and asking for it here would import it.
        if "torch" in sys.modules:
            self._torch_folder = folder_of_torch()
        else:
            self._torch_folder = ""
        self._stdlib = stdlib_folders()
        self.has_groups = False
        self.mode: Any = None
        """The dispatch mode; None: there is no process group yet."""
        self._inside = 0
        self._operators = 0
        """How many custom operators run, one in another."""
        self._runs: list[tuple[int, int, dict[str, Any], int]] = []
        """First and last sequence number of autograd nodes of each call of a graph, the graph, and a number."""
        self._reported: set[int] = set()
        self._left = _MOST

    def wrap(self, graph: Callable[..., Any], at: dict[str, Any]) -> Callable[..., Any]:
        """Note when a graph runs, and which nodes of autograd it makes."""
        import torch

        autograd: Any = torch.autograd  # its stub lacks `_get_sequence_nr` (2.11 to 2.13)

        def run(*args: Any) -> Any:
            self._add(GraphCalled(is_backward=False), at)
            first = autograd._get_sequence_nr()
            self._inside += 1
            try:
                return graph(*args)
            finally:
                self._inside -= 1
                self._runs = [
                    *self._runs[-_MOST_RUNS:],
                    (first, autograd._get_sequence_nr(), at, len(self._runs)),
                ]

        return run

    def watched_operator(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return the code of a custom operator, which the mode follows: a mode is off while an op runs that it saw."""
        from torch.utils import _python_dispatch

        modes: Any = _python_dispatch

        @wraps(kernel)
        def run(*args: Any, **kwargs: Any) -> Any:
            # No group yet, or a mode is on: then this one sees the operator's ops already, and would see them twice.
            if self.mode is None or modes._get_current_dispatch_mode() is not None:
                return kernel(*args, **kwargs)
            # What the operator does is its own, even inside a graph: the graph's record holds the operator only.
            inside, self._inside = self._inside, 0
            self._operators += 1
            try:
                with self.mode:
                    return kernel(*args, **kwargs)
            finally:
                self._operators -= 1
                self._inside = inside

        return run

    def seen(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record a collective, unless a graph runs it."""
        frame = sys._getframe(2)
        origin, frames = self._origin(frame, func.namespace)
        is_backward = _in_backward()
        is_of_graph = is_backward and not self._operators and origin not in _HOOKS and self._is_graphs_backward()
        if self._inside or is_of_graph:
            return
        self._add(self._described(func, args, kwargs, result, origin, frames, frame, is_backward=is_backward))

    def _is_graphs_backward(self) -> bool:
        """Whether the running node of autograd was made in a graph; record that the graph's backward runs."""
        import torch

        node: Any = torch._C._current_autograd_node()
        number = -1
        if node is not None:
            number = node._sequence_nr()
        # From the newest on: a graph that runs again has nodes of higher numbers.
        for first, last, at, run in reversed(self._runs):
            if first <= number < last:
                if run not in self._reported:
                    self._reported.add(run)
                    self._add(GraphCalled(is_backward=True), at)
                return True
        return False

    def _add(self, record: Any, at: dict[str, Any] | None = None) -> None:
        if self._left <= 0:
            # Said once: a program that never stops would fill the report.
            if self._left == 0:
                self._recorder.add(CollectivesCut(_MOST), {})
            self._left = -1
            return
        self._left -= 1
        self._recorder.add(record, at or {})

    def _origin(self, frame: FrameType | None, namespace: str) -> tuple[CollectiveOrigin, list[FrameType]]:
        """Return who called, and the frames of torch.distributed and of the user, innermost first."""
        origin, frames = None, []
        is_of_engine = False
        while frame is not None:
            file = frame.f_code.co_filename
            # Torch's frames stay only where they tell whose collective it is, such as FSDP's.
            if file.startswith(self._torch_folder):
                part = file[len(self._torch_folder) :]
                found = next((kind for folder, kind in _ORIGINS.items() if part.startswith(folder)), None)
                if found is not None:
                    origin = origin or found
                    frames.append(frame)
                if part == _ENGINE and not frames:
                    is_of_engine = True  # the engine's C++ called, and no Python hook of anybody
            elif not file.startswith((OURS, "<")) and not file.endswith(_DEPRECATING) and not self._is_pythons(file):
                frames.append(frame)
            frame = frame.f_back
        # DDP's reducer calls c10d; the gradient of a functional collective is a functional one (reducer.cpp, 2.13).
        if origin is None and is_of_engine and namespace == "c10d":
            origin = CollectiveOrigin.DDP
        return origin or CollectiveOrigin.USER, frames

    def _is_pythons(self, file: str) -> bool:
        """Whether a file is of the standard library, as `contextlib` is, which ends torch's context managers."""
        return file.startswith(self._stdlib) and "-packages" not in file

    def _is_users(self, frame: FrameType) -> bool:
        return not frame.f_code.co_filename.startswith(self._torch_folder)

    def _described(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        result: Any,
        origin: CollectiveOrigin,
        frames: list[FrameType],
        frame: FrameType | None,
        *,
        is_backward: bool,
    ) -> CollectiveCalled:
        group, size = _group_of(func, args, kwargs)
        moved, dtype = _moved(args, kwargs, result)
        user = next(filter(self._is_users, frames), None)
        name = func.overloadpacket.__name__
        found = CollectiveCalled(
            op=_NAMES.get(name, name),
            group=group,
            group_size=size,
            bytes=moved,
            dtype=dtype,
            is_backward=is_backward,
            file="",
            line=0,
            origin=origin,
            reduction=_reduction_of(func, args, kwargs, frame),
            is_joined=_is_joined(frame),
        )
        if user is not None:
            found = replace(found, file=user.f_code.co_filename, line=user.f_lineno)
        if origin is CollectiveOrigin.FSDP:
            found = replace(found, bucket=_bucket(frames))
        elif origin is CollectiveOrigin.DTENSOR:
            found = replace(found, change=_change(frames))
        return found


_MOST_RUNS = 1_000
"""Calls of graphs whose backwards may still come."""
_ORIGINS = {
    "distributed/fsdp/": CollectiveOrigin.FSDP,
    "distributed/_composable/": CollectiveOrigin.FSDP,
    "distributed/tensor/": CollectiveOrigin.DTENSOR,
    "nn/parallel/distributed.py": CollectiveOrigin.DDP,
}
"""Folders of torch that call collectives for the user, the first one that a stack meets counts."""
_DEPRECATING = "typing_extensions.py"
"""Its decorator is around functions of torch.distributed that are deprecated, such as reduce_scatter_tensor (2.13)."""
_ENGINE = "autograd/graph.py"
"""Where a backward enters autograd's engine (2.11 to 2.13)."""
_HOOKS = (CollectiveOrigin.FSDP, CollectiveOrigin.DDP)
"""Whose hooks run beside a node of autograd, and are no part of it."""


def _in_backward() -> bool:
    import torch

    return bool(torch._C._current_graph_task_id() != -1)


def _group_of(func: Any, args: Any, kwargs: Any) -> tuple[str, int]:
    """Return name and size of the process group among an op's arguments: an object, or its name."""
    from torch.distributed import distributed_c10d

    c10d: Any = distributed_c10d
    values = [*args, *kwargs.values()]
    # Functional collectives name their group, and those of c10d hold it.
    for declared, value in zip(func._schema.arguments, values, strict=False):
        if declared.name == "group_name":
            return str(value), int(c10d._resolve_process_group(value).size())
        if isinstance(value, c10d.ProcessGroup):
            return str(value.group_name), int(value.size())
        if declared.name == "process_group":
            group = c10d.ProcessGroup.unbox(value)
            return str(group.group_name), int(group.size())
    return "", 0


def _reduction_of(func: Any, args: Any, kwargs: Any, frame: FrameType | None) -> str:
    """Return the name of a reduction; empty for none, and for one of C++ code.

    A functional op has it as a string. Ops of c10d have an object that Python cannot read, so it is taken from the
    options in the function of `torch.distributed` that calls the op (distributed_c10d.py, 2.11 to 2.13).
    """
    for declared, value in zip(func._schema.arguments, [*args, *kwargs.values()], strict=False):
        if declared.name != "reduce_op":
            continue
        if isinstance(value, str):
            return value.lower()
        while frame is not None and frame.f_code.co_filename.startswith(folder_of_torch()):
            operation = getattr(frame.f_locals.get("opts"), "reduceOp", None)
            if operation is not None:
                return str(operation.op.name).lower()
            frame = frame.f_back
    return ""


def _is_joined(frame: FrameType | None) -> bool:
    """Whether a rank without inputs left asks its peers (torch/distributed/algorithms/join.py, 2.11 to 2.13)."""
    while frame is not None:
        if frame.f_code.co_name == "_get_num_nonjoined_procs":
            return True
        frame = frame.f_back
    return False


def _moved(args: Any, kwargs: Any, result: Any) -> tuple[int, str]:
    """Return the bytes of all tensors of the larger side, and the type of the first."""
    import torch
    from torch.utils import _pytree

    def total(tensors: list[Any]) -> int:
        return sum(each.numel() * each.element_size() for each in tensors)

    # An op of c10d takes its output as an argument, which its result repeats.
    sides = [[leaf for leaf in _pytree.tree_leaves(side) if isinstance(leaf, torch.Tensor)] for side in (*args, result)]
    sides = [side for side in sides if side]
    if not sides:
        return 0, ""
    return max(map(total, sides)), str(sides[0][0].dtype).removeprefix("torch.")


def _bucket(frames: list[FrameType]) -> tuple[str, ...]:
    """Return the parameters of the group whose hook runs (`FSDPParamGroup`, 2.11 to 2.13)."""
    for frame in frames:
        owner: Any = frame.f_locals.get("self")
        if type(owner).__name__ == "FSDPParamGroup":
            return tuple(str(each._param_fqn) for each in owner.fsdp_params)
    return ()


def _change(frames: list[FrameType]) -> str:
    """Return a DTensor's placements before and after (torch/distributed/tensor/_redistribute.py, 2.11 to 2.13)."""
    for frame in frames:
        if frame.f_code.co_name == "redistribute_local_tensor":
            before: Any = frame.f_locals.get("current_spec")
            after: Any = frame.f_locals.get("target_spec")
            with suppress(AttributeError):
                return f"{_placed(before.placements)} -> {_placed(after.placements)}"
    return ""


def _placed(placements: Any) -> str:
    return f"({', '.join(map(repr, placements))})"


def _with_result(result: Any) -> Any:
    """Let the future of a finished collective have its tensors, as that of a real backend does.

    DDP's reducer reads it, and the fake process group's is None (torch/csrc/distributed/c10d/FakeProcessGroup.hpp and
    comm.cpp:114, 2.13).
    """
    import torch
    from torch._C import _distributed_c10d

    bindings: Any = _distributed_c10d
    # Only these ops return their tensors with a Work; others have no future to fill.
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], torch.ScriptObject)):
        return result
    tensors = [each for each in torch.utils._pytree.tree_leaves(result[0]) if isinstance(each, torch.Tensor)]
    if not tensors:
        return result
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return result[0], bindings._create_work_from_future(future).boxed()


def _dispatch_mode(calls: _Calls) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    calls.has_groups = True
    calls._torch_folder = folder_of_torch()

    class _Collectives(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(hasattr(kind, "__tensor_flatten__") for kind in types):
                return NotImplemented  # the class splits it into ops on its parts, which come here one by one
            result = func(*args, **(kwargs or {}))
            if getattr(func, "namespace", None) in _NAMESPACES and func.overloadpacket.__name__ not in _LOCAL:
                with calls._recorder.watching("a collective"):
                    calls.seen(func, args, kwargs or {}, result)
                if func.namespace == "c10d":
                    return _with_result(result)
            return result

    return _Collectives()
