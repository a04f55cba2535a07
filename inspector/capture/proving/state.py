"""The state that a target can reach, as far as a call may change it."""

from typing import Any

from ctrace.inspector.capture.proving.digests import digest
from ctrace.inspector.capture.state.world import is_plain, look

_OURS = ("._compiled_call_impl", "._backward_hooks", "_torchdynamo_", "method Module.")
"""What torch.compile itself changes (_dynamo/mutation_guard.py patches nn.Module, 2.13)."""
_MISSING = ["not set"]


class State:
    """A checkpoint of everything that is reachable from a model or function, by path."""

    def __init__(self, subject: Any) -> None:
        self._items = dict(_items(subject))

    def changes(self, later: "State") -> list[Any]:
        """List what differs in a later checkpoint, sorted: path, value before, value after."""
        found = []
        for path in sorted({*self._items, *later._items}):
            was, now = self._items.get(path, _MISSING), later._items.get(path, _MISSING)
            if was != now:
                found.append([path, was, now])
        return found


def _items(subject: Any) -> Any:
    import torch

    world = look(subject)
    for (kind, path), (container, content) in world.containers.items():
        for key, value in content.items():
            where = f"{kind} {container.path_of(key) if key != '' else path}"
            if any(part in where for part in _OURS):
                continue
            if isinstance(value, torch.Tensor):
                yield where, _tensor(value)
            elif is_plain(value):
                yield where, [type(value).__name__, _plain(value)]
            elif isinstance(value, list | dict | set | tuple):
                yield where, [type(value).__name__, len(value)]
            else:
                yield where, [type(value).__qualname__]


def _plain(value: Any) -> str:
    return getattr(value, "__qualname__", None) or repr(value)[:500]


def _tensor(value: Any) -> list[Any]:
    import torch

    stride = list(value.stride()) if value.layout is torch.strided and not value.is_nested else []
    return [type(value).__qualname__, str(value.dtype), list(value.shape), stride, value.requires_grad, digest(value)]
