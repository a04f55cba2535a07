"""Answer questions about the device in traced code as the GPU would, so that Dynamo traces the GPU's branch.

Dynamo represents a device as a `ConstantVariable` (2.11 to 2.13, _dynamo/variables/constant.py) and folds its
attributes. Here a tensor's device is a constant for the GPU. Dynamo writes it into the graph (`as_proxy`) and the
bytecode (codegen.py) as the CPU again, because both run on the CPU. Guards come from the tensors and do not change.

Tensors that would be on the CPU even if the program ran on a GPU stay there.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.gpus.child.eager_on_cpu import CPU, Literal, is_cpu, is_gpu, on_cpu, the_gpu
from ctrace.inspector.features.gpus.child.torch_cuda_answers import (
    NO_ANSWER,
    DeviceAnswers,
    DeviceQuestions,
    shown_answer,
)
from ctrace.inspector.features.gpus.child.virtual_gpu import GpuProperties
from ctrace.inspector.knowledge.torch_names import TENSOR_ATTRIBUTE

_ATTRIBUTES = {"type", "index"}
_COMPARISONS = ("==", "!=", "in", "not in")
_AVAILABLE = ("torch.cuda", "torch.accelerator")


@contextmanager
def questions(recorder: Recorder, when: When) -> Iterator[None]:
    """Make Dynamo answer questions about the device as the GPU would, and record them."""
    queries = DeviceQuestions.of(recorder)
    with ExitStack() as patches:

        def install(_dynamo: ModuleType) -> None:
            with recorder.watching("the program's questions about the device"):
                for owner, name, make in _hooks(queries):
                    patches.enter_context(patched(owner, name, make(getattr(owner, name))))
                patches.enter_context(_comparisons(queries))
                patches.enter_context(_constant_properties())

        when("torch._dynamo", install)
        yield


_Hook = tuple[Any, str, Callable[[Any], Callable[..., Any]]]


def _hooks(queries: DeviceQuestions) -> Iterator[_Hook]:
    from torch._dynamo.codegen import PyCodegen
    from torch._dynamo.variables import ConstantVariable, TensorVariable
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
    from torch._dynamo.variables.user_defined import UserDefinedClassVariable

    yield TensorVariable, TENSOR_ATTRIBUTE.needed_of(TensorVariable), lambda original: _attribute(original, queries)
    yield TensorVariable, "call_method", lambda original: _method(original, queries)
    yield ConstantVariable, "as_proxy", lambda original: _into_graph(original, queries)
    yield ConstantVariable, TENSOR_ATTRIBUTE.needed_of(ConstantVariable), lambda original: _of_device(original, queries)
    yield PyCodegen, "__call__", _into_bytecode
    yield TorchInGraphFunctionVariable, "call_function", lambda original: _function(original, queries)
    yield UserDefinedClassVariable, "call_function", _made


def _constant(value: Any) -> Any:
    from torch._dynamo.variables import ConstantVariable

    return ConstantVariable.create(value)


def _device(variable: Any) -> Any:
    """Return the value of a variable that may be a device; return None if it is a string or not a constant.

    Do not realize a lazy variable, because that would add guards.
    """
    from torch._dynamo.variables import ConstantVariable, LazyVariableTracker

    if isinstance(variable, LazyVariableTracker) and variable.is_realized():
        variable = variable.realize()
    value = None
    if type(variable) is ConstantVariable:
        value = variable.value
    if isinstance(value, str):
        return None
    return value


def _attribute(original: Callable[..., Any], queries: DeviceQuestions) -> Callable[..., Any]:
    """Answer `x.device`, `x.is_cuda` and `x.is_cpu` as the GPU would."""

    def attribute(self: Any, tx: Any, name: str) -> Any:
        found = original(self, tx, name)
        if name not in ("device", "is_cuda", "is_cpu") or not _is_on_cpu(self) or stays_on_cpu(self.proxy.node):
            return found
        if name == "device":
            return _constant(the_gpu())
        answer = name == "is_cuda"
        queries.traced(tx, f"Tensor.{name}", answer)
        return _constant(answer)

    return attribute


def _is_on_cpu(tensor: Any) -> bool:
    return tensor.device is not None and tensor.device.type == CPU


def _method(original: Callable[..., Any], queries: DeviceQuestions) -> Callable[..., Any]:
    """Answer `x.get_device()` with 0, trace `x.cuda()` as a move to the GPU, and record `x.cpu()`."""

    def call_method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name == "get_device" and _is_on_cpu(self) and not stays_on_cpu(self.proxy.node):
            queries.traced(tx, "Tensor.get_device()", 0)
            return _constant(0)
        if name == "cuda" and not args and not kwargs:
            # A move to a device is one op in a graph, which then gets the CPU by `_into_graph`.
            return original(self, tx, "to", [_constant(the_gpu())], {})
        if name == "cpu":
            queries.traced(tx, "Tensor.cpu()", "on the CPU")
        return original(self, tx, name, args, kwargs)

    return call_method


def _made(original: Callable[..., Any]) -> Callable[..., Any]:
    """Assign the index 0 to a CPU device that `torch.device(name)` makes from a name outside the traced code.

    The index shows `_into_graph` that the device is not a literal in the program.
    """

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        import torch

        # A value with a source comes from outside of the traced code.
        is_outside = self.value is torch.device and any(each.source is not None for each in (*args, *kwargs.values()))
        found = original(self, tx, args, kwargs)
        if is_outside and is_cpu(_device(found)):
            return _constant(torch.device(CPU, 0))
        return found

    return call_function


def _into_graph(original: Callable[..., Any], queries: DeviceQuestions) -> Callable[..., Any]:
    """Pass the CPU instead of the GPU to the graph, and mark a literal "cpu" in the program."""

    def as_proxy(self: Any) -> Any:
        value = original(self)
        if is_gpu(value):
            return on_cpu(value)
        # `_made` sets the index of a device that came from outside; a literal "cpu" has none.
        if not isinstance(value, str) and is_cpu(value) and value.index is not None:
            return type(value)(CPU)
        # Without a source, the device is written in the traced code itself.
        if self.source is None and is_cpu(value):
            tx = _tracing(sys._getframe(1))
            if tx is not None:
                queries.traced(tx, str(value), "on the CPU")
            return Literal(CPU)
        return value

    return as_proxy


def _tracing(frame: Any) -> Any:
    """Return the innermost translator, which traces the current function, or None."""
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    while frame is not None:
        self = frame.f_locals.get("self")
        if isinstance(self, InstructionTranslatorBase):
            return self
        frame = frame.f_back
    return None


def _into_bytecode(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        device = _device(value)
        # With a source, the bytecode reads the device from where the program has it.
        if is_gpu(device) and value.source is None:
            value = _constant(on_cpu(device))
        return original(self, value, *args, **kwargs)

    return call


def _of_device(original: Callable[..., Any], queries: DeviceQuestions) -> Callable[..., Any]:
    """Record `x.device.type` and `x.device.index` if the device is the GPU."""

    def attribute(self: Any, tx: Any, name: str) -> Any:
        found = original(self, tx, name)
        if name in _ATTRIBUTES and is_gpu(_device(self)):
            queries.traced(tx, f"device.{name}", found.as_python_constant())
        return found

    return attribute


def _function(original: Callable[..., Any], queries: DeviceQuestions) -> Callable[..., Any]:
    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        module, name = getattr(self.value, "__module__", ""), getattr(self.value, "__name__", "")
        if module in _AVAILABLE and name == "is_available":
            queries.traced(tx, f"{module}.{name}()", True)
            return _constant(True)
        if module == "torch.cuda" and name in NO_ANSWER and DeviceAnswers.current is not None:
            queries.traced(tx, f"torch.cuda.{name}()", shown_answer(name, DeviceAnswers.current.answers[name]))
        return original(self, tx, args, kwargs)

    return call_function


@contextmanager
def _constant_properties() -> Iterator[None]:
    """Let Dynamo take a GPU's properties for a constant, as those of torch (2.13, _dynamo/utils.py)."""
    from torch._dynamo.utils import common_constant_types

    common_constant_types.add(GpuProperties)
    try:
        yield
    finally:
        common_constant_types.discard(GpuProperties)


@contextmanager
def _comparisons(queries: DeviceQuestions) -> Iterator[None]:
    """Record comparisons such as `x.device == ...`, which Dynamo folds into constants."""
    from torch._dynamo.symbolic_convert import compare_op_handlers as handlers

    before = {name: handlers[name] for name in _COMPARISONS}
    handlers.update({name: _compared(name, original, queries) for name, original in before.items()})
    try:
        yield
    finally:
        handlers.update(before)


def _compared(name: str, original: Callable[..., Any], queries: DeviceQuestions) -> Callable[..., Any]:
    def compare(tx: Any, args: Any, kwargs: Any) -> Any:
        found = original(tx, args, kwargs)
        # Otherwise the comparison became a part of the graph, and nothing was decided.
        if any(is_gpu(_device(each)) for each in args) and found.is_python_constant():
            queries.traced(tx, f"device {name} device", found.as_python_constant())
        return found

    return compare


def stays_on_cpu(node: Any) -> bool:
    """Whether a node of Dynamo's graph would be on the CPU even if the program ran on a GPU.

    Such a node is created without a device or with a literal "cpu", or is computed only from such nodes.
    """
    seen: dict[Any, bool] = {}
    # A stack, not recursion: a graph may be thousands of nodes deep.
    waiting = [node]
    while waiting:
        current = waiting[-1]
        inputs = [each for each in _tensors(current) if each not in seen]
        # Inputs first, unless the node says itself where it is.
        if inputs and _explicit(current) is None:
            waiting.extend(inputs)
            continue
        seen[waiting.pop()] = _stays(current, seen)
    return seen[node]


def _stays(node: Any, seen: dict[Any, bool]) -> bool:
    explicit = _explicit(node)
    if explicit is not None:
        return explicit
    return all(seen.get(each, False) for each in _tensors(node))


def _explicit(node: Any) -> bool | None:
    """Return whether a node's own arguments put it on the CPU, or None if its inputs determine its device.

    The graph's inputs and attributes are on the GPU.
    """
    if node.op not in ("call_function", "call_method"):
        return False
    if node.target == "cpu":
        return True
    device = next((value for value in (*node.args, *node.kwargs.values()) if is_cpu(value)), None)
    if device is None:
        return None
    # Any other CPU was a GPU in the program, or comes from outside of the traced code.
    return isinstance(device, Literal)


def _tensors(node: Any) -> list[Any]:
    """Return the input nodes that are tensors, or tuples or lists of tensors."""
    import torch

    return [
        each for each in node.all_input_nodes if isinstance(each.meta.get("example_value"), torch.Tensor | tuple | list)
    ]
