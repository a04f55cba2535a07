"""Take the storage of a model's parameters, and of tensors on the meta device."""

from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.features.fake.child.address_range import has_no_memory, storageless


def is_on_meta(module: Any) -> bool:
    """Whether a module has parameters on the meta device, so that it cannot be called with values."""
    return any(each.device.type == "meta" for each in module.parameters())


def without_storage(module: Any) -> None:
    """Replace each parameter that has a storage, and each tensor on the meta device.

    A parameter that several modules share stays shared. A buffer keeps its values if the program computed them from
    constants.
    """
    replaced: dict[int, Any] = {}
    for part in module.modules():
        for owner in (part._parameters, part._buffers):
            for name, tensor in owner.items():
                if tensor is None or not _is_plain(tensor):
                    continue
                if tensor.device.type == "meta":
                    if id(tensor) not in replaced:
                        replaced[id(tensor)] = _like(tensor)
                    owner[name] = replaced[id(tensor)]
                elif owner is part._parameters and not has_no_memory(tensor):
                    tensor.data = storageless(tensor.size(), tensor.stride(), tensor.dtype)


def call_without_storage(call: Call) -> Call:
    """Replace the tensors on the meta device among the arguments; one that is passed twice stays one."""
    import torch
    from torch.utils import _pytree

    replaced: dict[int, Any] = {}

    def there(tensor: Any) -> Any:
        if tensor.device.type != "meta" or not _is_plain(tensor):
            return tensor
        return replaced.setdefault(id(tensor), _like(tensor).requires_grad_(tensor.requires_grad))

    args, kwargs = _pytree.tree_map_only(torch.Tensor, there, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is a strided one, on the CPU or the meta device, of no class that wraps others."""
    import torch

    is_lazy = torch.nn.parameter.is_lazy(tensor)
    is_wrapper = type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
    return not is_lazy and not is_wrapper and tensor.layout is torch.strided and tensor.device.type in ("cpu", "meta")


def _like(tensor: Any) -> Any:
    """Return a tensor on the CPU without storage, for one on the meta device."""
    import torch

    made = storageless(tensor.size(), tensor.stride(), tensor.dtype, tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        made.__dict__.update(tensor.__dict__)
    return made
