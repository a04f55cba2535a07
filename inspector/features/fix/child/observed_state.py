"""The state that a target can reach, as far as a call may change it."""

import re
from functools import lru_cache
from typing import Any

from ctrace.inspector.capture.state.world import contents, is_plain
from ctrace.inspector.features.fix.child.digests import Storages, digest

_OURS = re.compile(r"\._compiled_call_impl|\._backward_hooks|_torchdynamo_|method Module\.")
"""What torch.compile itself changes (_dynamo/mutation_guard.py patches nn.Module, 2.13)."""
_LEFT_OUT = frozenset((("method", "Module"),))
"""The class of torch whose attributes are all left out; a class of the program with this name is, too."""
_SIMPLE = frozenset((bool, int, float, complex, str, bytes, type(None)))
"""Exact types whose values print all that they are: most items of a model, of which a proof reads millions."""
_MISSING = ["not set"]
_MOST_TEXT = 500
"""Characters of a plain value; a longer text may differ beyond them unseen."""


class StateCheckpoint:
    """A checkpoint of everything that is reachable from a model or function, by path."""

    def __init__(self, subject: Any) -> None:
        self.tensors: list[tuple[str, Any]] = []
        """Tensors that are reachable, by path."""
        self._items = dict(_items(subject, self.tensors))

    def with_history(self) -> list[tuple[str, Any]]:
        """Return the tensors that a call computed from what needs gradients: a backward pass may start there."""
        return [(path, leaf) for path, leaf in self.tensors if leaf.requires_grad and leaf.grad_fn is not None]

    def sharing(self, storages: Storages) -> dict[str, str]:
        """Return which tensors lie in memory that has a name, by path; the memory of the others gets their path."""
        found = {}
        for path, leaf in self.tensors:
            shared = storages.shared_with(leaf)
            if not shared:
                storages.add(path, leaf)
            elif shared != path:
                found[path] = shared
        return found

    def changes(self, later: "StateCheckpoint") -> list[Any]:
        """List what differs in a later checkpoint, sorted: path, value before, value after."""
        found = []
        for path in sorted({*self._items, *later._items}):
            was, now = self._items.get(path, _MISSING), later._items.get(path, _MISSING)
            if was != now:
                found.append([path, was, now])
        return found


def leaves_of(subject: Any, state: StateCheckpoint | None = None) -> list[tuple[str, Any]]:
    """Return what a subject holds that can have gradients, by path: parameters, and plain tensors in attributes.

    `state` is a checkpoint of the subject, if there is one already.
    """
    import torch

    named = list(subject.named_parameters()) if isinstance(subject, torch.nn.Module) else []
    known = {id(leaf) for _, leaf in named}
    if isinstance(subject, torch.nn.Module):
        known |= {id(leaf) for leaf in subject.buffers()}
    for path, leaf in (state or StateCheckpoint(subject)).tensors:
        if id(leaf) not in known and leaf.is_leaf and leaf.is_floating_point():
            known.add(id(leaf))
            named.append((path, leaf))
    return named


def _items(subject: Any, tensors: list[tuple[str, Any]]) -> Any:
    import torch

    seen = set()
    for container, content in contents(subject, _LEFT_OUT):
        kind, path = container.kind, container.path
        if (kind, path) in seen:
            continue
        seen.add((kind, path))
        for key, value in content.items():
            where = f"{kind} {container.path_of(key) if key != '' else path}"
            if _is_ours(where):
                continue
            if type(value) in _SIMPLE:
                yield where, [type(value).__name__, repr(value)[:_MOST_TEXT]]
            elif isinstance(value, torch.Tensor):
                tensors.append((where, value))
                yield where, _tensor(value)
            elif is_plain(value):
                yield where, [type(value).__name__, _plain(value)]
            elif isinstance(value, list | dict | set | tuple):
                yield where, [type(value).__name__, len(value)]
            else:
                yield where, [type(value).__qualname__]


@lru_cache(maxsize=1 << 16)
def _is_ours(where: str) -> bool:
    return _OURS.search(where) is not None


def _plain(value: Any) -> str:
    return getattr(value, "__qualname__", None) or repr(value)[:_MOST_TEXT]


def _tensor(value: Any) -> list[Any]:
    import torch

    stride = list(value.stride()) if value.layout is torch.strided and not value.is_nested else []
    return [type(value).__qualname__, str(value.dtype), list(value.shape), stride, value.requires_grad, digest(value)]
