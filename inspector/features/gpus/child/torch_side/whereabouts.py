"""Decide which tensors in a graph would be on the CPU even if the program ran on a GPU."""

from typing import Any

from ctrace.inspector.features.gpus.child.torch_side.devices import Literal, is_cpu


def stays_on_cpu(node: Any) -> bool:
    """Whether a node of Dynamo's graph would be on the CPU even if the program ran on a GPU.

    Such a node is created without a device or with a literal "cpu", or is computed only from such nodes.
    """
    seen: dict[Any, bool] = {}
    waiting = [node]
    while waiting:
        current = waiting[-1]
        inputs = [each for each in _tensors(current) if each not in seen]
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
    return None if device is None else isinstance(device, Literal)


def _tensors(node: Any) -> list[Any]:
    """Return the input nodes that are tensors, or tuples or lists of tensors."""
    import torch

    return [
        each for each in node.all_input_nodes if isinstance(each.meta.get("example_value"), torch.Tensor | tuple | list)
    ]
