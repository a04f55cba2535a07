"""The state that a target can reach, as far as a call may change it."""

import hashlib
import re
from collections import OrderedDict
from functools import lru_cache
from typing import Any

from ctrace.inspector.capture.comparing.containers import Container, Content
from ctrace.inspector.capture.comparing.sealed import Sealed
from ctrace.inspector.capture.comparing.world import Where, contents, is_plain
from ctrace.inspector.features.fix.child.digests import Storages, digest

_OURS = re.compile(r"\._compiled_call_impl|\._backward_hooks|_torchdynamo_|method Module\.")
"""What torch.compile itself changes (_dynamo/mutation_guard.py patches nn.Module, 2.13)."""
_LEFT_OUT = frozenset((("method", "Module"),))
"""The class of torch whose attributes are all left out; a class of the program with this name is, too."""
_EXACT = frozenset((bool, int, str, bytes, type(None)))
"""Types whose equal values print the same text."""
_SIZED = frozenset((dict, OrderedDict, list, set))
"""Types of which only the length counts: their items are facts of their own. Most attributes of a module are these."""
_NAMES = (str, int)
_WITH_LENGTH = (list, dict, set, tuple)
_MOST_IN_TUPLE = 10_000
"""Items of a tuple that is searched, as of any container (capture/comparing/containers.py)."""
_MISSING = ["not set"]
_MOST_TEXT = 500
"""Characters of a plain value that a difference shows."""

Facts = dict[Any, Any]
"""What the items of a container are, by key; a key that is neither text nor a number is the path, in a tuple."""


class StateCheckpoint:
    """A checkpoint of everything that is reachable from a model or function, by path.

    A proof takes some thousand of a model, which may have ten thousand items: texts are made of those only that differ.
    It keeps no object of the program alive but its tensors.
    """

    def __init__(self, subject: Any) -> None:
        self.tensors: list[tuple[str, Any]] = []
        """Tensors that are reachable, by path."""
        self._containers: dict[Where, tuple[str, Facts]] = {}
        """The format of an item's key and the items, by kind and path of the container."""
        hidden: list[Sealed] = []
        for container, content in contents(subject, hidden, _LEFT_OUT):
            where = container.kind, container.path
            if where not in self._containers:
                self._containers[where] = container.item, self._facts(container, content)
        self._containers["hidden", ""] = "{}", {each.path: _hidden(each) for each in hidden if each.is_same_anywhere}

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
        found: dict[str, list[Any]] = {}
        for where in {**self._containers, **later._containers}:
            item, was = self._containers.get(where, ("", {}))
            item_now, now = later._containers.get(where, (item, {}))
            # Most containers do not change, and comparing them whole needs no texts.
            if was == now:
                continue
            for key in {**was, **now}:
                path = _path(*where, item_now, key)
                before, after = was.get(key, _MISSING), now.get(key, _MISSING)
                if before != after and not _is_ours(path):
                    found[path] = [path, _shown(before), _shown(after)]
        return [found[path] for path in sorted(found)]

    def _facts(self, container: Container, content: Content) -> Facts:
        facts: Facts = {}
        for key, value in content.items():
            if type(key) in _NAMES:
                name = key
            else:
                name = (f"{container.kind} {container.path_of(key)}",)
            kind = type(value)
            if kind in _EXACT:
                facts[name] = kind, value
            elif kind in _SIZED:
                facts[name] = [kind.__name__, len(value)]
            else:
                self._add(facts, name, value, container)
        return facts

    def _add(self, facts: Facts, name: Any, value: Any, container: Container) -> None:
        import torch

        if isinstance(value, torch.Tensor):
            path = _path(container.kind, container.path, container.item, name)
            if not _is_ours(path):
                self.tensors.append((path, value))
                facts[name] = _tensor(value)
        elif is_plain(value):
            facts[name] = [type(value).__name__, getattr(value, "__qualname__", None) or repr(value)[:_MOST_TEXT]]
        elif isinstance(value, _WITH_LENGTH):
            facts[name] = [type(value).__name__, len(value)]
            if isinstance(value, tuple) and len(value) <= _MOST_IN_TUPLE:
                # A tuple is no container, since nothing can be put back into it; caches of keys and values often are.
                path = _path(container.kind, container.path, container.item, name)
                for index, item in enumerate(tuple.__iter__(value)):
                    self._add(facts, (f"{path}[{index}]",), item, container)
        else:
            facts[name] = [type(value).__qualname__]


def leaves_of(subject: Any, state: StateCheckpoint | None = None) -> list[tuple[str, Any]]:
    """Return what a subject holds that can have gradients, by path: parameters, and plain tensors in attributes.

    `state` is a checkpoint of the subject, if there is one already.
    """
    import torch

    named = []
    if isinstance(subject, torch.nn.Module):
        named = list(subject.named_parameters())
    # A parameter is also an item of its module's dictionary, and counts once.
    known = {id(leaf) for _, leaf in named}
    if isinstance(subject, torch.nn.Module):
        known |= {id(leaf) for leaf in subject.buffers()}
    for path, leaf in (state or StateCheckpoint(subject)).tensors:
        if id(leaf) not in known and leaf.is_leaf and leaf.is_floating_point():
            known.add(id(leaf))
            named.append((path, leaf))
    return named


def _hidden(state: Sealed) -> list[Any]:
    """Describe state that no container shows: of the program's own random generators, arrays of NumPy, iterators."""
    if isinstance(state.shown, bytes):
        shown = state.shown
    else:
        shown = repr(state.shown).encode()
    return [type(state.value).__qualname__, hashlib.blake2b(shown, digest_size=12).hexdigest()]


def _path(kind: str, path: str, item: str, key: Any) -> str:
    if type(key) is tuple:
        return str(key[0])
    name = f"{kind} {path}"
    if key != "":
        name += item.format(key)
    return name


@lru_cache(maxsize=1 << 12)
def _is_ours(path: str) -> bool:
    return _OURS.search(path) is not None


def _shown(fact: Any) -> list[Any]:
    """Return a fact as plain data."""
    if isinstance(fact, tuple):
        kind, value = fact
        return [kind.__name__, repr(value)[:_MOST_TEXT]]
    return list(fact)


def _tensor(value: Any) -> list[Any]:
    import torch

    stride = []
    if value.layout is torch.strided and not value.is_nested:
        stride = list(value.stride())
    return [type(value).__qualname__, str(value.dtype), list(value.shape), stride, value.requires_grad, digest(value)]
