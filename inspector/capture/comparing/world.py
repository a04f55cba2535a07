"""Take checkpoints of the state that a model can read, and restore it.

A checkpoint has a shallow copy of every container that is reachable from the model, keyed by the container's path, and
the values of tensors that are not too large. It can list the entries that differ from the facts of an earlier
checkpoint. Taking a checkpoint reads only `__dict__` and items, so no user code runs. Facts hold only plain values and
functions: torch drops cache entries together with an object that they guard, and a fact that keeps the object alive
would keep them, too (`id_ref`, _dynamo/guards.py, 2.13). Tensors are compared bit by bit (`same_bits`): NaN equals
itself, and dtypes that torch cannot compare are compared, too.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from types import FunctionType, NoneType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.comparing.containers import (
    FIXED,
    Container,
    Content,
    around_function,
    children,
    container_of,
    free_standing,
    is_bare,
    is_compilers,
)
from ctrace.inspector.capture.comparing.sealed import Sealed, sealed


def same_bits(one: Any, other: Any) -> bool:
    """Whether two strided tensors have the same shape, dtype and bits; one that cannot be read counts as the same."""
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    try:
        return torch.equal(bits(one), bits(other))
    except RuntimeError:  # quantized, or without storage
        return True


def bits(tensor: Any) -> Any:
    """Return the bytes of a tensor's values."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        # A conjugate or negative view has other values than its memory; `view` needs memory without gaps.
        return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


# A model may hold a table or a corpus: reading all of it would take longer than the call.
_MOST_CONTAINERS = 100_000
_MOST_BYTES = 256 * 2**20
"""Total size of the tensors that one checkpoint copies; of the others, it stores only the version."""
_SWITCHES = ("torch_switch", "")
"""The kind and path of the container with torch's and Python's switches."""
A_TENSOR = "a parameter or a large tensor"
_BUILT_IN = (dict, OrderedDict, list, set, tuple)
# Constants, as in containers.py.
_PLAIN = (bool, int, float, complex, str, bytes, NoneType, FunctionType)
_WRAPPED = (staticmethod, classmethod)
_LONG = 100
"""A longer tuple is data, not a setting."""


class _Missing:
    def __repr__(self) -> str:
        return "not set"


MISSING = _Missing()

Where = tuple[str, str]
"""Kind and path of a container: the model and the user's module may both be called `model`."""
Facts = dict[tuple[Where, Any], Any]
"""Plain values and functions, keyed by container and key."""


class ItemChange(Struct, frozen=True):
    """A changed item of a container; `was` or `now` is MISSING if the item did not or does not exist."""

    container: Container
    key: Any
    was: Any
    now: Any

    @property
    def path(self) -> str:
        """Where the item is, in torch's notation."""
        return self.container.path_of(self.key)

    def undo(self) -> None:
        """Restore the old value."""
        if self.was is MISSING:
            self.container.remove(self.key)
        else:
            self.container.put(self.key, self.was)


class World(Struct):
    """A checkpoint."""

    containers: dict[Where, tuple[Container, Content]] = field(default_factory=dict)
    """Containers keyed by kind and path, each with its content."""
    tensors: list[tuple[Any, int, Any]] = field(default_factory=list)
    """Tensors, each with its version and a copy; the copy is None for a parameter or a tensor that is too large."""
    hidden: list[Sealed] = field(default_factory=list)
    """State that no container shows."""

    def facts(self) -> Facts:
        """Return all plain values and functions."""
        return {
            (where, key): value
            for where, (_, content) in self.containers.items()
            for key, value in content.items()
            if is_plain(value)
        }

    def differing(self, facts: Facts) -> list[ItemChange]:
        """List the plain items that changed, appeared or disappeared since `facts` were collected."""
        found = []
        now = self.facts()
        for where, key in dict.fromkeys((*now, *facts)):
            was, value = facts.get((where, key), MISSING), now.get((where, key), MISSING)
            container, content = self.containers.get(where, (None, {}))
            unknown = value is MISSING and key in content  # it is no longer a plain value
            if container is not None and not unknown and not _same(was, value):
                found.append(ItemChange(container, key, was, value))
        return [change for change in found if not is_compilers(change.was) and not is_compilers(change.now)]

    def restore(self) -> tuple[str, ...]:
        """Restore what has changed since the checkpoint; return what could not be restored, in torch's notation."""
        lost = [container.path for container, content in self.containers.values() if not container.restore(content)]
        # A cache that has grown should give the same results, so it does not have to be as it was.
        lost += [each.path for each in self.hidden if not each.restore() and not each.kind.remembers]
        changed = [
            (tensor, copied) for tensor, version, copied in self.tensors if _has_changed(tensor, version, copied)
        ]
        for tensor, copied in changed:
            if copied is not None:
                _write(tensor, copied)
        return (*lost, *([A_TENSOR] if any(copied is None for _, copied in changed) else ()))

    def drawn(self) -> tuple[str, ...]:
        """Return which random generators of the program have moved since the checkpoint."""
        return tuple(each.path for each in self.hidden if each.kind.draws and each.changed())

    def remembered(self) -> tuple[str, ...]:
        """Return which caches of functions have grown since the checkpoint."""
        return tuple(each.path for each in self.hidden if each.kind.remembers and each.changed())

    def switches(self) -> Content:
        """Return the values that the switches had."""
        if _SWITCHES in self.containers:
            return self.containers[_SWITCHES][1]
        return {}

    def switched(self) -> Content:
        """Return the switches that have another value now than at the checkpoint."""
        if _SWITCHES not in self.containers:
            return {}
        container, before = self.containers[_SWITCHES]
        return {name: value for name, value in container.content().items() if value != before[name]}

    def with_switches(self, values: Content) -> "World":
        """Return the same checkpoint with other values of some switches."""
        if not values or _SWITCHES not in self.containers:
            return self
        container, before = self.containers[_SWITCHES]
        return World({**self.containers, _SWITCHES: (container, {**before, **values})}, self.tensors, self.hidden)


def _has_changed(tensor: Any, version: int, copied: Any) -> bool:
    """Whether a tensor has changed; a write through `.data` or an array of NumPy leaves its version as it was."""
    # The version is cheap and decides most cases; bits are compared only where it is the same.
    if tensor._version != version:
        return True
    return copied is not None and not same_bits(tensor, copied)


def is_plain(value: Any) -> bool:
    """Whether facts may hold a value."""
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, FIXED):
        return len(value) < _LONG and all(map(is_plain, value))
    if isinstance(value, _WRAPPED):
        return isinstance(value.__func__, FunctionType)
    # Values of torch that compare by content, and with which no cache entry dies.
    return type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device")


def _same(one: Any, other: Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is other
    try:
        return bool(one == other)
    except Exception:  # of a subclass of str or int that the program defines
        return True


def look(model: Any) -> World:
    """Take a checkpoint of everything that is reachable from a model, of the environment and of torch's switches."""
    import torch

    world = World()
    tensors: dict[int, Any] = {}
    # `setdefault` below: the first container of a path counts, and these have none of the model's paths.
    for container in free_standing():
        world.containers.setdefault((container.kind, container.path), (container, container.content()))
    for container, content in _reachable(model, tensors, world.hidden):
        world.containers.setdefault((container.kind, container.path), (container, content))
    watched = set()
    if isinstance(model, torch.nn.Module):
        watched = {id(each) for each in model.parameters()}
    world.tensors = list(_copies(tensors.values(), watched))
    return world


def look_into(**values: Any) -> World:
    """Take a checkpoint of what is reachable from values, such as the arguments of a call."""
    world = World()
    tensors: dict[int, Any] = {}
    for name, value in values.items():
        for container, content in _reachable(value, tensors, world.hidden, name):
            # The first path counts, as in `look`.
            world.containers.setdefault((container.kind, container.path), (container, content))
    world.tensors = list(_copies(tensors.values(), set()))
    return world


def contents(
    model: Any, hidden: list[Sealed], without: frozenset[Where] = frozenset()
) -> Iterator[tuple[Container, Content]]:
    """Yield the containers that are reachable from a model, and those of no object, each with its content.

    Two may have the same kind and path; the first counts. Those that are plain and empty, and those in `without`, are
    left out. State that no container shows is added to `hidden`.
    """
    for each in free_standing():
        yield each, each.content()
    yield from _reachable(model, {}, hidden, with_empty=False, without=without)


def _reachable(
    root: Any,
    tensors: dict[int, Any],
    hidden: list[Sealed],
    name: str = "model",
    *,
    with_empty: bool = True,
    without: frozenset[Where] = frozenset(),
) -> Iterator[tuple[Container, Content]]:
    """Yield containers breadth first, so that each has its shortest path; collect tensors and hidden state."""
    import torch

    seen: dict[int, Any] = {}  # keeps the values alive, so that no temporary object frees its id
    waiting = deque([(name, "attribute", root)])
    # Breadth first also means that the limit cuts off what is deepest.
    while waiting and len(seen) < _MOST_CONTAINERS:
        path, kind, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        # Tensors are compared by their values, apart from containers.
        if isinstance(value, torch.Tensor):
            tensors[id(value)] = value
            continue
        # An empty container has no fact, and most containers of a module are empty.
        if not with_empty and type(value) in _BUILT_IN and not value:
            continue
        if not with_empty and type(value) is FunctionType and is_bare(value):
            # Most of what a model reaches: methods. Without attributes and defaults, they hold what is around them.
            waiting.extend(each for each in around_function(value) if id(each[2]) not in seen)
            continue
        # Before the container: an object may have items and a hidden state.
        if (state := sealed(path, value)) is not None:
            hidden.append(state)
        container = container_of(path, kind, value)
        leading: Content = {}
        if container is not None and (container.kind, container.path) not in without:
            content = container.content()
            yield container, content
            if with_empty:
                leading = content
            else:
                leading = _without_empty(content)
        waiting.extend(children(container, leading, path, kind, value, known=seen))


def _without_empty(content: Content) -> Content:
    return {key: item for key, item in content.items() if type(item) not in _BUILT_IN or item}


def _copies(tensors: Iterable[Any], watched: set[int]) -> Iterator[tuple[Any, int, Any]]:
    """Yield each tensor with its version and a copy; the copy is None for parameters and beyond `_MOST_BYTES`.

    Parameters are large, and a forward seldom changes one.
    """
    import torch
    from torch.nn.parameter import is_lazy

    left = _MOST_BYTES
    for tensor in tensors:
        if is_lazy(tensor):  # of a lazy module that was not called
            continue
        # An inference tensor has no version; other layouts have no bytes.
        if tensor.is_inference() or tensor.layout is not torch.strided:
            continue
        size = 0
        if id(tensor) not in watched:
            # Of parameters only the version is kept, so they take none of the memory for copies.
            size = tensor.numel() * tensor.element_size()
        left -= size
        yield tensor, tensor._version, tensor.detach().clone() if left > 0 and id(tensor) not in watched else None


def _write(tensor: Any, copied: Any) -> None:
    import torch

    with torch.no_grad():
        if tensor.shape == copied.shape:
            tensor.copy_(copied)
        else:
            # The call resized it in place.
            tensor.data = copied
