"""Move a captured graph to the target GPU (`move`): the same computation with fake tensors on that device.

Dynamo captures the graph from CPU tensors, and writes devices into it as constants. Each moved input is made from
Dynamo's `example_value`, which has symbolic sizes, so that the moved graph has the same shapes and guards.

A DTensor is one rank's part, and the layout of all parts (`moved_dtensor`, `meshes_of_gpus`). The GPU gets the kernels
of that part. A mesh names the type of its devices, and DTensor moves tensors of another type to it
(torch/distributed/tensor/_api.py: `from_local`, 2.11 to 2.13), so while code is emitted every mesh on the CPU is one of
GPUs. Its process groups stay: an emitted collective refers to them by name. What Dynamo traces with in the place of a
mesh has a copy of the mesh's attributes (2.13, torch/_library/fake_class_registry.py, `FakeScriptObject`), which is
compared with the mesh.

FlexAttention behaves as on the GPU (`trainable`, `save_for_backward`). On the CPU, it refuses to train and does not
save what the backward needs (2.11 to 2.13, nn/attention/flex_attention.py, `_validate_device` and
`_apply_kernel_options`).

`without_code` records why a graph has no code for the target; the program goes on, because it does not run on the GPU.
Only two kinds of failures are known to happen on the real GPU, too. First, torch finds tensors on two devices in one op
while it traces the moved graph (2.11 to 2.13, _subclasses/fake_tensor.py: `_find_common_device`). Second, Inductor asks
to skip a function, and Dynamo leaves it in eager (_dynamo/output_graph.py: `call_user_compiler`), for example because
of bfloat16 on a GPU that does not support it (_inductor/compile_fx.py: `_check_triton_bf16_support`). With caches off,
as here, torch wraps that request in an error; with caches on, it does not.
"""

import copy
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder, compile_context
from ctrace.inspector.features.gpus.child.eager_on_cpu import CPU, Literal

_SAVED = "OUTPUT_LOGSUMEXP"


@contextmanager
def trainable(recorder: Recorder, when: When) -> Iterator[None]:
    """Allow FlexAttention with gradients on the CPU: the graph runs eagerly, and eager FlexAttention supports them."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            with recorder.watching("FlexAttention with gradients on the CPU"):
                patches.enter_context(patched(module, "_validate_device", _accepted))

        when("torch.nn.attention.flex_attention", install)
        yield


def _accepted(query: Any, key: Any, value: Any) -> None:
    """Replace `_validate_device` and accept any device; Dynamo traces this function."""


def save_for_backward(graph: Any) -> None:
    """Make each FlexAttention of a graph save what its backward needs, as on a GPU with gradients enabled."""
    import torch

    enabled = torch.is_grad_enabled()
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            enabled = node.args[0]
        elif enabled and str(node.target) == "flex_attention":
            node.args = tuple(map(_saving, node.args))


def _saving(argument: Any) -> Any:
    if isinstance(argument, dict) and _SAVED in argument:
        return {**argument, _SAVED: True}
    return argument


_MESH = "torch.distributed.device_mesh"
_DTENSOR = "torch.distributed.tensor"
_STANDS_FOR = "torch._library.fake_class_registry"
_DEVICE = "_device_type"
_COPIED = ("_device_type", "device_type")


def is_dtensor(tensor: Any) -> bool:
    """Whether a tensor is a DTensor."""
    module = sys.modules.get(_DTENSOR)
    return module is not None and isinstance(tensor, module.DTensor)


def _is_awaited(tensor: Any) -> bool:
    """Whether a tensor is the result of a collective in eager code that nothing has waited for."""
    module = sys.modules.get("torch.distributed._functional_collectives")
    return module is not None and isinstance(tensor, module.AsyncCollectiveTensor)


def moved_dtensor(known: Any, local: Any) -> Any:
    """Return a DTensor of the layout of another one, with a part that is on the GPU."""
    return sys.modules[_DTENSOR].DTensor(local, known._spec, requires_grad=False)


@contextmanager
def meshes_of_gpus() -> Iterator[None]:
    """Let every mesh of the process be one of GPUs in the block."""
    module = sys.modules.get(_MESH)
    kind = getattr(module, "DeviceMesh", None)
    if kind is None or not hasattr(kind, "get_coordinate"):  # a torch without torch.distributed
        yield
        return
    stand_in = getattr(sys.modules.get(_STANDS_FOR), "FakeScriptObject", None)
    # Nothing lists meshes; each is a Python object, and so the collector knows it.
    there = gc.get_objects()
    meshes = [each for each in there if type(each) is kind and getattr(each, _DEVICE, "") == "cpu"]
    copies = [
        (each, name)
        for each in there
        if type(each) is stand_in and type(each.real_obj) is kind
        for name in _COPIED
        if vars(each).get(name) == "cpu"
    ]
    for mesh in meshes:
        hash(mesh)  # it is kept, and has the type of the device in it
        setattr(mesh, _DEVICE, "cuda")
    for each, name in copies:
        object.__setattr__(each, name, "cuda")  # the class itself refuses any change
    try:
        yield
    finally:
        for mesh in meshes:
            setattr(mesh, _DEVICE, "cpu")
        for each, name in copies:
            object.__setattr__(each, name, "cpu")


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
    if context and context.fake_mode:
        return context.fake_mode
    return FakeTensorMode()


class _Inputs:
    """Makes fake inputs that share memory where the originals do."""

    def __init__(self, inputs: Any) -> None:
        import torch

        tensors = [
            each for each in inputs if isinstance(each, torch.Tensor) and not (is_dtensor(each) or _is_awaited(each))
        ]
        # Inputs that share no storage need no base, and keep their symbolic sizes.
        self._uses = Counter(map(_storage, tensors))
        self._bases: dict[Any, Any] = {}

    def of(self, known: Any, original: Any) -> Any:
        """Make the input for `original`, with the sizes of Dynamo's tensor `known` if there is one."""
        import torch

        if not isinstance(original, torch.Tensor):
            return original
        if is_dtensor(original) or _is_awaited(original):
            return _fake_like(known, original)
        key = _storage(original)
        base = None
        if self._uses[key] > 1:
            base = self._base(key, original)
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
    if _is_awaited(known) and not _wraps(known.elem):
        with torch.no_grad():
            return _as_input(type(known)(_strided(known.elem, None)), original)
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
        # A view of it, so that it is no leaf either: AOTAutograd treats the two differently.
        if not original.is_leaf:
            fake = fake.view_as(fake)
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
    # One for each tensor, so that tied weights stay tied in the moved module.
    fakes = {id(tensor): _fake_like(tensor, tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, tensor in tensors:
        setattr(module, name, fakes[id(tensor)])
    for name, child in list(module.named_children()):
        # The memo puts the fakes in the places of all tensors, and copies only what is around them.
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


_MEETING = re.compile(r"at least two devices|two different devices|on the same device")
_REFUSED = {"BF16 is not supported": "it does not support bfloat16; float16 and float32 compile there"}
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


@contextmanager
def without_code(recorder: Recorder, target: str) -> Iterator[None]:
    """Turn a failure to emit a graph for `target` into a problem."""
    from torch._dynamo.exc import RestartAnalysis

    try:
        yield
    except RestartAnalysis:  # Dynamo restarts tracing; not a failure
        raise
    except Exception as error:
        recorder.problem(_explanation(error, target))


def _explanation(error: Exception, target: str) -> str:
    from torch._dynamo.exc import SkipFrame

    text = str(error).strip()
    if _MEETING.search(text):
        return (
            f"this would raise on the GPU{_place(text)}: an op mixes tensors on the CPU and the GPU."
            " A tensor created without a device is on the CPU: create it with `device=x.device`"
        )
    if isinstance(getattr(error, "inner_exception", error), SkipFrame):
        return (
            f"torch would leave the function of {graph_name()} in eager on {target}, and raise with fullgraph=True:"
            f" {_REFUSED.get(text.removeprefix('SkipFrame: '), text)}"
        )
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"no code of {graph_name()} was emitted for {target}: {type(error).__name__}: {first}{_place(text)}"


def graph_name() -> str:
    """Return the name of the graph that is being compiled."""
    context = compile_context()
    if context:
        return f"graph {context['frame_id']}/{context['frame_compile_id']}"
    return "a graph"


def _place(text: str) -> str:
    """Return the innermost user line that torch quotes after its message."""
    places = _PLACE.findall(text.partition("Original traceback")[2])
    if places:
        return f" at {places[-1][0]}:{places[-1][1]}"
    return ""
