"""Which tensors of a graph are on the CPU even when the program's tensors are on a GPU."""

from typing import Any

from ctrace.inspector.capture.virtual.torch_side.devices import Literal, is_cpu


def stays_on_cpu(node: Any) -> bool:
    """Whether a node of Dynamo's graph is made on the CPU: by a call without a device, or with "cpu" written out."""
    seen: dict[Any, bool] = {}
    waiting = [node]
    while waiting:
        current = waiting[-1]
        inputs = [each for each in _tensors(current) if each not in seen]
        if inputs and _told(current) is None:
            waiting.extend(inputs)
            continue
        seen[waiting.pop()] = _stays(current, seen)
    return seen[node]


def _stays(node: Any, seen: dict[Any, bool]) -> bool:
    told = _told(node)
    if told is not None:
        return told
    return all(seen.get(each, False) for each in _tensors(node))


def _told(node: Any) -> bool | None:
    """Say what a node itself says of its device; None: nothing, it is where its inputs are."""
    if node.op not in ("call_function", "call_method"):
        return False
    if node.target == "cpu":
        return True
    device = next((value for value in (*node.args, *node.kwargs.values()) if is_cpu(value)), None)
    return None if device is None else isinstance(device, Literal)


def _tensors(node: Any) -> list[Any]:
    """Give the nodes that a node takes tensors from; several may come as a tuple."""
    import torch

    return [
        each for each in node.all_input_nodes if isinstance(each.meta.get("example_value"), torch.Tensor | tuple | list)
    ]
