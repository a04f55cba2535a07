"""Move a captured graph to the target GPU: the same computation with fake tensors on that device.

Dynamo captures the graph from CPU tensors, and writes devices into it as constants. Each moved input is made from
Dynamo's `example_value`, which has symbolic sizes, so that the moved graph has the same shapes and guards.
"""

import copy
from collections import Counter
from typing import Any

from ctrace.inspector.features.gpus.child.devices import CPU, Literal
from ctrace.inspector.features.gpus.child.dtensors import is_dtensor, moved_dtensor
from ctrace.inspector.features.gpus.child.flex import save_for_backward

GPU = "cuda:0"
_MARKS = ("_dynamo_static_input_type",)
"""Attributes of an input that AOTAutograd reads (2.11 to 2.13, _functorch/_aot_autograd/frontend_utils.py)."""


def move(model: Any, inputs: Any) -> list[Any]:
    """Move a graph in place, and return its inputs on the GPU; call this while a GPU is presented.

    Replace submodules instead of changing them, because a copy of the graph may share them.

    Raises:
        NotImplementedError: an input is not an ordinary tensor; it is sparse, for example.
    """
    placeholders = [node for node in model.graph.nodes if node.op == "placeholder"]
    with _fake_mode():
        moved = _Inputs(inputs)
        fakes = [
            original if _is_wrapped_number(node) else moved.of(node.meta.get("example_value"), original)
            for node, original in zip(placeholders, inputs, strict=True)
        ]
        for node, fake in zip(placeholders, fakes, strict=True):
            if not _is_wrapped_number(node):
                node.meta["example_value"] = fake
        _move_module(model)
    return fakes


def _is_wrapped_number(placeholder: Any) -> bool:
    """Whether an input is a number of the program that Dynamo passes as a tensor, which is on the CPU in any case.

    With `dynamic=True`, floats are such inputs; the graph calls `item()` on them (2.11 to 2.13, `wrap_symfloat` of
    _dynamo/variables/builder.py).
    """
    return bool(getattr(placeholder.meta.get("grapharg"), "pass_arg_as_tensor", False))


def _fake_mode() -> Any:
    import torch
    from torch._subclasses import FakeTensorMode

    context = torch._guards.TracingContext.try_get()
    return context.fake_mode if context and context.fake_mode else FakeTensorMode()


class _Inputs:
    """Makes fake inputs that share memory where the originals do."""

    def __init__(self, inputs: Any) -> None:
        import torch

        tensors = [each for each in inputs if isinstance(each, torch.Tensor) and not is_dtensor(each)]
        self._uses = Counter(map(_storage, tensors))
        self._bases: dict[Any, Any] = {}

    def of(self, known: Any, original: Any) -> Any:
        """Make the input for `original`, with the sizes of Dynamo's tensor `known` if there is one."""
        import torch

        if not isinstance(original, torch.Tensor):
            return original
        if is_dtensor(original):
            return _fake_like(known, original)
        key = _storage(original)
        base = self._base(key, original) if self._uses[key] > 1 else None
        return _fake_like(known if isinstance(known, torch.Tensor) else original, original, base)

    def _base(self, key: Any, original: Any) -> Any:
        """Return the fake tensor that all inputs of one dtype in one storage are views of."""
        import torch

        key = (key, original.dtype)
        if key not in self._bases:
            size = original.untyped_storage().nbytes() // original.element_size()
            self._bases[key] = torch.empty(size, dtype=original.dtype, device=GPU)
        return self._bases[key]


def _storage(tensor: Any) -> Any:
    """Return an identifier of a tensor's storage, or of the tensor itself if it has no storage."""
    import torch

    if tensor.layout is torch.strided:
        return tensor.untyped_storage()._cdata
    return id(tensor)


def _fake_like(known: Any, original: Any, base: Any = None) -> Any:
    """Make a fake tensor like `original` with the sizes of `known`, as a view of `base` if there is one."""
    import torch

    if is_dtensor(known) and not _wraps(known._local_tensor):
        with torch.no_grad():
            return _as_input(moved_dtensor(known, _strided(known._local_tensor, None)), original)
    if known.layout is not torch.strided or _wraps(original):
        msg = f"an input is a {type(original).__name__} of layout {known.layout}, which is not an ordinary tensor"
        raise NotImplementedError(msg)
    with torch.no_grad():
        fake = _strided(known, base)
    return _as_input(fake, original)


def _as_input(fake: Any, original: Any) -> Any:
    """Let a fake tensor need gradients as the original does."""
    import torch

    if isinstance(original, torch.nn.Parameter):
        fake = torch.nn.Parameter(fake, requires_grad=original.requires_grad)
    elif original.requires_grad:
        fake.requires_grad_()
        fake = fake if original.is_leaf else fake.view_as(fake)
    for name in _MARKS:
        if hasattr(original, name):
            setattr(fake, name, getattr(original, name))
    return fake


def _wraps(tensor: Any) -> bool:
    """Whether a tensor is a subclass that wraps other tensors."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return bool(is_traceable_wrapper_subclass(tensor))


def _strided(known: Any, base: Any) -> Any:
    import torch

    size, stride, offset = known.size(), known.stride(), known.storage_offset()
    if base is not None:
        return torch.as_strided(base, size, stride, offset)
    fake = torch.empty_strided(size, stride, dtype=known.dtype, device=GPU)
    # Inductor checks whether memory is aligned to 16 bytes, which depends on the offset.
    if isinstance(offset, int) and offset == 0:
        return fake
    return _shifted(fake, size, stride, offset)


def _shifted(fake: Any, size: Any, stride: Any, offset: Any) -> Any:
    import torch

    extent = fake.untyped_storage().nbytes() // fake.element_size()
    return torch.as_strided(torch.empty(extent + offset, dtype=fake.dtype, device=GPU), size, stride, offset)


def _move_module(module: Any) -> None:
    import torch

    tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    fakes = {id(tensor): _fake_like(tensor, tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, tensor in tensors:
        setattr(module, name, fakes[id(tensor)])
    for name, child in list(module.named_children()):
        setattr(module, name, copy.deepcopy(child, dict(fakes)))
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule):
            _move_constants(each)


def _move_constants(module: Any) -> None:
    import torch

    for node in module.graph.nodes:
        if node.target != "cpu":  # `x.cpu()` goes to the CPU from any device
            node.args = torch.fx.node.map_aggregate(node.args, _moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _moved)
    save_for_backward(module.graph)
    module.recompile()


def _moved(value: Any) -> Any:
    """Return the GPU for the CPU, except for a literal "cpu" in the program; return other values unchanged."""
    import torch

    if isinstance(value, Literal):
        return CPU
    if isinstance(value, torch.device) and value.type == "cpu":
        return torch.device(GPU)
    if isinstance(value, str) and value == "cpu":
        return GPU.partition(":")[0]
    return value
