"""Take the storage of a model's parameters, and of its tensors on the meta device."""

from typing import Any

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
                if tensor is not None and _is_replaced(tensor, is_parameter=owner is part._parameters):
                    owner[name] = replaced.setdefault(id(tensor), None) or _replaced(tensor, replaced)


def _is_replaced(tensor: Any, *, is_parameter: bool) -> bool:
    import torch

    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin) or tensor.layout is not torch.strided:
        return False
    if tensor.device.type == "meta":
        return True
    is_plain = type(tensor).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
    return is_parameter and is_plain and tensor.device.type == "cpu" and not has_no_memory(tensor)


def _replaced(tensor: Any, replaced: dict[int, Any]) -> Any:
    import torch

    made = storageless(tensor.size(), tensor.stride(), tensor.dtype, tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        made.__dict__.update(tensor.__dict__)
    replaced[id(tensor)] = made
    return made
