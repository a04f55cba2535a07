"""Move DTensors to the target GPU: each is one rank's part, and the layout of all parts.

The GPU gets the kernels of that part. A mesh names the type of its devices, and DTensor moves tensors of another type
to it (torch/distributed/tensor/_api.py: `from_local`, 2.11 to 2.13), so while code is emitted every mesh on the CPU is
one of GPUs. Its process groups stay: an emitted collective refers to them by name. What Dynamo traces with in the place
of a mesh has a copy of the mesh's attributes (2.13, torch/_library/fake_class_registry.py, `FakeScriptObject`), which
is compared with the mesh.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MESH = "torch.distributed.device_mesh"
_DTENSOR = "torch.distributed.tensor"
_STANDS_FOR = "torch._library.fake_class_registry"
_DEVICE = "_device_type"
_COPIED = ("_device_type", "device_type")


def is_dtensor(tensor: Any) -> bool:
    """Whether a tensor is a DTensor."""
    module = sys.modules.get(_DTENSOR)
    return module is not None and isinstance(tensor, module.DTensor)


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
