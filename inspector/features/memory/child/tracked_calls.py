"""Register what each operator of eager code returns, with the line of the user that it is computed for.

The dispatch mode stands below autograd, so it sees what the backward computes, too. There, the stack only says where
the backward was called: the line is that of the operator whose gradient is computed. Autograd numbers its nodes, and
makes the node of an operator right before the operator is dispatched (2.13, `torch.autograd._get_sequence_nr`), so the
line of a node is that of the operator that is dispatched next.
"""

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ctrace.inspector.capture.core.callers import OURS, folder_of_torch
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.features.memory.child.storage_ledger import (
    NOWHERE,
    CodeOrigin,
    Ledger,
    plain_tensors,
    storage_of,
)
from ctrace.inspector.source.owners import owner_of

_ENGINE = "_engine_run_backward"
_CALLERS = frozenset(str(Path(__file__).with_name(name)) for name in ("model_calls.py", "memory_task.py"))
"""The files that call the user's code: what is below them on the stack is not the user's."""
_ACCUMULATES = "AccumulateGrad"
_WITHOUT_NAME = frozenset(("allocate", "wrapper", "__torch_dispatch__"))
"""Functions of torch.distributed whose caller says more about what is made (2.13)."""


class OperatorLines:
    """Finds the user's line that runs."""

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self._prefixes = {**library_prefixes(), str(Path(torch.__file__ or "").parent): Owner.TORCH}
        self._ours = (folder_of_torch(), OURS, "<frozen ")
        self._distributed = str(Path(torch.__file__ or "").parent / "distributed") + os.sep
        self._owners: dict[CodeType | str, Owner | None] = {}
        self._of_nodes: dict[int, CodeOrigin] = {}
        self.entered: set[CodeOrigin] = set()
        """The functions that torch.compile compiles. A graph knows no line outside of them, so eager looks no further:
        the lines of both are those of the same code."""

    def forget_nodes(self) -> None:
        """Forget the lines of earlier backwards."""
        self._of_nodes.clear()

    def here(self, frame: FrameType | None) -> CodeOrigin:
        """Return the line that an operator is computed for."""
        node = self._torch._C._current_autograd_node()
        origin, in_engine = self._on_stack(frame, inside_engine=node is not None)
        if node is None or not in_engine:
            if self._torch.is_grad_enabled() and origin is not NOWHERE:
                # The first operator after a node is the one that made it; later ones have newer nodes.
                self._of_nodes.setdefault(self._torch.autograd._get_sequence_nr() - 1, origin)
            return origin
        return self._of_nodes.get(node._sequence_nr(), NOWHERE)

    def of_graph(self, frame: FrameType | None) -> CodeOrigin:
        """Return the line that a compiled forward runs for; what the engine makes for its backward has it, too."""
        origin = self._on_stack(frame, inside_engine=False)[0]
        if origin is not NOWHERE:
            # The node of a graph's autograd.Function is the last one: its forward runs once the node is there.
            self._of_nodes.setdefault(self._torch.autograd._get_sequence_nr() - 1, origin)
        return origin

    def in_distributed(self, frame: FrameType | None) -> CodeOrigin:
        """Name the function of `torch.distributed` that runs: what FSDP gathers is of no line of the user's."""
        while frame is not None:
            name = frame.f_code.co_name
            _, is_distributed, path = frame.f_code.co_filename.partition(self._distributed)
            if is_distributed and name not in _WITHOUT_NAME and not name.startswith("<"):
                return CodeOrigin(None, None, f"{name} of torch.distributed.{path.partition(os.sep)[0]}")
            frame = frame.f_back
        return NOWHERE

    def _on_stack(self, frame: FrameType | None, *, inside_engine: bool) -> tuple[CodeOrigin, bool]:
        """Return the innermost line of the user, and whether it is outside of a backward that runs."""
        library = None
        while frame is not None:
            code = frame.f_code
            if inside_engine and code.co_name == _ENGINE:
                return NOWHERE, True
            if code.co_filename in _CALLERS:
                break
            owner = self._owner(code.co_filename)
            if owner is Owner.USER:
                return CodeOrigin(code.co_filename, frame.f_lineno, code.co_qualname), False
            if owner is Owner.LIBRARY and library is None:
                library = CodeOrigin(code.co_filename, frame.f_lineno, code.co_qualname)
            if library is not None and CodeOrigin(code.co_filename, code.co_firstlineno, code.co_name) in self.entered:
                return library, False
            frame = frame.f_back
        return library or NOWHERE, inside_engine and library is None

    def is_users(self, file: str) -> bool:
        """Whether a file is the user's."""
        return self._owner(file) is Owner.USER

    def _owner(self, file: str) -> Owner | None:
        if file not in self._owners:
            is_ours = file.startswith(self._ours) or file.startswith("<")  # code without a file
            self._owners[file] = None if is_ours else owner_of(file, self._prefixes)
        return self._owners[file]


class Tracked:
    """A ledger that is kept by a dispatch mode, and hooks that say which part of a step runs."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        ledger.describe = self._described
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.lines = OperatorLines()
        self.mode = _mode(self)
        self.steps: dict[str, Callable[[], None]] = {}
        """What to do after a backward, and after a step of an optimizer."""
        self.retained: dict[CodeOrigin, int] = {}
        """The lines that keep a graph of autograd after its backward, and the bytes that it holds."""
        self.backwards = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """Register everything that the block allocates."""
        import torch

        with ExitStack() as stack:
            # `backward` and `grad` call the name that torch/autograd/__init__.py imports from graph.py (2.13): replaced
            # in graph.py, it would not be seen.
            engine = getattr(torch.autograd, _ENGINE)
            stack.enter_context(patched(torch.autograd, _ENGINE, self._in_backward(engine)))
            stack.enter_context(self._optimizer_hooks())
            optimizer = torch.optim.Optimizer
            stack.enter_context(patched(optimizer, "__init__", self._noted(optimizer.__init__)))
            # No operator runs when FSDP frees what it has gathered (2.13, distributed/fsdp/_fully_shard/
            # _fsdp_param.py, `free_storage`): it sets the size of the storage.
            storage = torch.UntypedStorage
            stack.enter_context(patched(storage, "resize_", self._resizing(storage.resize_)))
            stack.enter_context(self.mode)
            yield

    @contextmanager
    def marking_saved(self) -> Iterator[None]:
        """Mark what calls of modules save in the block, also where no backward follows, which would mark it.

        Only for a program that compiles nothing: Dynamo would trace the hooks.
        """
        import torch
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        autograd: Any = torch.autograd
        began: list[int] = []

        def enter(_module: Any, _inputs: Any) -> None:
            began.append(autograd._get_sequence_nr())

        def leave(_module: Any, _inputs: Any, outputs: Any) -> None:
            since = began.pop()
            # Of the outermost module only: what it returns leads to all that those inside have saved.
            if not began:
                mark_saved(self.ledger, outputs, since)

        hooks = register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            for each in hooks:
                each.remove()

    def _in_backward(self, original: Any) -> Any:
        def run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            # Dynamo, and AOTAutograd's tracing, call the engine on fake tensors.
            if _is_compiling():
                return original(outputs, *args, **kwargs)
            self.backwards += 1
            mark_saved(self.ledger, outputs)
            with self.within("backward"):
                result = original(outputs, *args, **kwargs)
            if len(args) > 1 and args[1] is True:  # retain_graph
                origin = self.lines.here(sys._getframe(1))
                saved = sum(size for stored, size in self.ledger.alive().items() if stored.kind == "saved")
                self.retained[origin] = max(self.retained.get(origin, 0), saved)
            self.steps.get("backward", _nothing)()
            return result

        return run

    def _resizing(self, original: Any) -> Any:
        @wraps(original)
        def resize_(storage: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(storage, *args, **kwargs)
            self.ledger.follow_size(storage)
            return result

        return resize_

    def _noted(self, original: Any) -> Any:
        @wraps(original)
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._optimizers.add(optimizer)

        return init

    def _described(self, tensor: Any) -> tuple[CodeOrigin, str]:
        """Say what an unknown tensor is.

        A compiled step of an optimizer makes its state while Dynamo traces it, and an eager one its numbers of steps
        from Python numbers: the state is first seen where the step uses it.
        """
        storage = storage_of(tensor)
        states = plain_tensors(each for optimizer in self._optimizers for each in optimizer_tensors(optimizer))
        if storage is None or not any(_shares(each, storage) for each in states):
            return NOWHERE, "other"
        return self.lines.here(sys._getframe(1)), "optimizer"

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        """Say which part runs."""
        before, self.ledger.part = self.ledger.part, part
        try:
            yield
        finally:
            self.ledger.part = before

    @contextmanager
    def _optimizer_hooks(self) -> Iterator[None]:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        parts: list[str] = []

        def begins(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            parts.append(self.ledger.part)
            self.ledger.part = "optimizer"
            mark_parameters(self.ledger, (each for group in optimizer.param_groups for each in group["params"]))

        def ends(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if parts:
                self.ledger.part = parts.pop()
            self.ledger.mark(optimizer_tensors(optimizer), "optimizer")
            self.steps.get("optimizer", _nothing)()

        handles = (register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(ends))
        try:
            yield
        finally:
            for each in handles:
                each.remove()


def _nothing() -> None:
    """Do nothing after a step that nobody waits for."""


def _is_compiling() -> bool:
    from torch._guards import CompileContext

    return CompileContext.current_compile_id() is not None


def _mode(tracked: Tracked) -> Any:
    import torch
    from torch.utils import _pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    ledger, lines = tracked.ledger, tracked.lines

    class _Tracking(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            # Operators of a compilation work on fake tensors, and those of a planned graph are counted by its plan.
            if ledger.is_closed or _is_compiling():
                return func(*args, **(kwargs or {}))
            if func.namespace == "profiler":  # marks, which make no tensor: nobody waits for one at a peak
                return func(*args, **(kwargs or {}))
            if any(hasattr(each, "__tensor_flatten__") for each in types):
                return NotImplemented  # the class calls operators on the tensors that it wraps, which come here again
            given = [each for each in _pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
            frame = sys._getframe(1)
            origin = lines.here(frame)
            if origin is NOWHERE:
                origin = lines.in_distributed(frame)
            _note_arguments(ledger, given, origin, is_fresh=func is torch.ops.aten.lift_fresh.default)
            name = str(func)
            # Before and after: an operator that runs others, such as a backward, leaves their line behind.
            ledger.at = origin.text or origin.function or name
            result = func(*args, **(kwargs or {}))
            ledger.at = origin.text or origin.function or name
            kinds = () if given else ("other",)  # such as data, or a mask: made from no other tensor
            node: Any = torch._C._current_autograd_node()
            if node is not None and node.name().endswith(_ACCUMULATES):
                kinds = ("gradient",)
            for each in _pytree.tree_leaves(result):
                if isinstance(each, torch.Tensor):
                    ledger.add(each, origin, name, *kinds)
            return result

    return _Tracking()


def _note_arguments(ledger: Ledger, given: Iterable[Any], origin: CodeOrigin, *, is_fresh: bool) -> None:
    """Register the arguments of an operator that are not known yet.

    Args:
        is_fresh: `torch.tensor` makes a tensor without an operator, and hands it to `aten.lift_fresh` (2.13,
            torch/csrc/utils/tensor_new.cpp).
    """
    import torch

    for each in given:
        known = ledger.of(each)
        if known is None and is_fresh:
            known = ledger.add(each, origin, "torch.tensor", "other")
        elif known is None:
            known = ledger.add_unknown(each)
        if known is not None and isinstance(each, torch.nn.Parameter):
            known.kinds.add("parameter")


def _shares(tensor: Any, storage: Any) -> bool:
    found = storage_of(tensor)
    return found is not None and found._cdata == storage._cdata


def optimizer_tensors(optimizer: Any) -> list[Any]:
    """Return the tensors that an optimizer keeps."""
    import torch
    from torch.utils import _pytree

    return [
        each
        for state in optimizer.state.values()
        for each in _pytree.tree_leaves(state)
        if isinstance(each, torch.Tensor)
    ]


def mark_parameters(ledger: Ledger, parameters: Iterable[Any]) -> None:
    """Mark parameters, and the gradients that they have."""
    for each in parameters:
        ledger.mark((each.detach(),), "parameter")
        if each.grad is not None:
            ledger.mark((each.grad,), "gradient")
            _place_gradient(ledger, each)


def _place_gradient(ledger: Ledger, parameter: Any) -> None:
    """Let a gradient that no line of the user's code makes belong to the line that makes its parameter.

    The forward of `nn.Sequential` and its layers is torch's code, so the backward has no line of the user's.
    """
    gradient, owner = ledger.of(parameter.grad), ledger.of(parameter.detach())
    if gradient is not None and owner is not None and gradient.origin.file is None:
        gradient.origin = owner.origin


def mark_saved(ledger: Ledger, outputs: Any, since: int = 0) -> None:
    """Mark what autograd keeps for the backward of some results, as `saved_tensors` finds it."""
    for tensor in saved_tensors(outputs, since):
        ledger.mark((tensor,), "saved")


def saved_tensors(outputs: Any, since: int = 0) -> Iterator[Any]:
    """Yield each tensor that the nodes below some results save, down to the nodes made before a number of autograd's.

    What a hook has packed, such as a checkpoint, is not unpacked: that may compute it again.
    """
    import torch
    from torch.utils import _pytree

    tensors = [each for each in _pytree.tree_leaves(outputs) if isinstance(each, torch.Tensor)]
    waiting = [each.grad_fn for each in tensors if each.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield from saved_by(node)
        for following, _ in node.next_functions:
            if following is not None and following not in seen and following._sequence_nr() >= since:
                seen.add(following)
                waiting.append(following)


def saved_by(node: Any) -> Iterator[Any]:
    """Yield the tensors that one node saves."""
    import torch

    # Torch gives a node one attribute for each tensor that it saves (`_raw_saved_self` and so on).
    for name in dir(node):
        if not name.startswith("_raw_saved_"):
            continue
        try:
            raw = getattr(node, name)
        except RuntimeError:  # freed by a backward
            continue
        for each in raw if isinstance(raw, list | tuple) else (raw,):
            if isinstance(each, torch._C._autograd.SavedTensor):
                data = _data_of(each)
                if isinstance(data, torch.Tensor):
                    yield data


def _data_of(saved: Any) -> Any:
    """Return what a node saved, or what a hook made of it."""
    try:
        return saved.data
    except RuntimeError:  # freed by a backward
        return None
