"""The twin of a captured graph: the same computation, with what lies on the CPU moved to a GPU, as fake tensors.

Dynamo captured the graph from tensors on the CPU, and writes devices into it as constants. The twin's inputs are made
from what Dynamo knows of each (`example_value`, with symbolic sizes), so that it has the same shapes and guards.
"""

import copy
from typing import Any

GPU = "cuda:0"


def move(model: Any, inputs: Any, *, grad: bool = True) -> list[Any]:
    """Move a graph to the GPU, in place, and give its inputs as they would be there, while a GPU is presented.

    What hangs below the graph and may be shared with a copy of it is replaced, not changed. Without `grad`, nothing
    requires a gradient, so that it is traced for inference.
    """
    placeholders = [node for node in model.graph.nodes if node.op == "placeholder"]
    with _fake_mode():
        fakes = [_moved_input(node, given, grad) for node, given in zip(placeholders, inputs, strict=True)]
        _move_module(model, grad)
    return fakes


def _fake_mode() -> Any:
    import torch
    from torch._subclasses import FakeTensorMode

    context = torch._guards.TracingContext.try_get()
    return context.fake_mode if context and context.fake_mode else FakeTensorMode()


def _move_module(module: Any, grad: bool) -> None:
    import torch

    for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
        setattr(module, name, _fake_like(tensor, tensor, grad))
    for name, child in list(module.named_children()):
        if isinstance(child, torch.fx.GraphModule):
            child = torch.fx.GraphModule(child, copy.deepcopy(child.graph))
            setattr(module, name, child)
            _move_module(child, grad)
    for node in module.graph.nodes:
        if node.target != "cpu":
            node.args = torch.fx.node.map_aggregate(node.args, _moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _moved)
    module.recompile()


def _moved(value: Any) -> Any:
    import torch

    if isinstance(value, torch.device) and value.type == "cpu":
        return torch.device(GPU)
    return GPU if value == "cpu" and isinstance(value, str) else value


def _moved_input(node: Any, given: Any, grad: bool) -> Any:
    import torch

    if not isinstance(given, torch.Tensor):
        return given
    return _fake_like(node.meta.get("example_value", given), given, grad)


def _fake_like(shape: Any, given: Any, grad: bool) -> Any:
    import torch

    fake = torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype, device=GPU)
    if isinstance(given, torch.nn.Parameter):
        fake = torch.nn.Parameter(fake, requires_grad=grad and given.requires_grad)
    elif grad and given.requires_grad:
        fake.requires_grad_()
        if not given.is_leaf:
            fake = fake.view_as(fake)
    for name in ("_dynamo_static_input_type", "_dynamo_dynamic_indices"):
        if hasattr(given, name):
            setattr(fake, name, getattr(given, name))
    return fake
