"""Take checkpoints of the state that a model can read, and restore it.

A checkpoint has a shallow copy of every container that is reachable from the model, keyed by the container's path, and
the values of tensors that are not too large. It can list the entries that differ from the facts of an earlier
checkpoint. Taking a checkpoint reads only `__dict__` and items, so no user code runs. Facts hold only plain values and
functions: torch drops cache entries together with an object that they guard, and a fact that keeps the object alive
would keep them, too (`id_ref`, _dynamo/guards.py, 2.13).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.state.containers import Container, Content, children, container_of, free_standing

_MOST_CONTAINERS = 100_000
_MOST_BYTES = 256 * 2**20
"""Total size of the tensors that one checkpoint copies; of the others, it stores only the version."""
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


class Change(Struct, frozen=True):
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

    def facts(self) -> Facts:
        """Return all plain values and functions."""
        return {
            (where, key): value
            for where, (_, content) in self.containers.items()
            for key, value in content.items()
            if is_plain(value)
        }

    def differing(self, facts: Facts) -> list[Change]:
        """List the plain items that changed, appeared or disappeared since `facts` were collected."""
        found = []
        now = self.facts()
        for where, key in dict.fromkeys((*now, *facts)):
            was, value = facts.get((where, key), MISSING), now.get((where, key), MISSING)
            container, content = self.containers.get(where, (None, {}))
            unknown = value is MISSING and key in content  # it is no longer a plain value
            if container is not None and not unknown and not _same(was, value):
                found.append(Change(container, key, was, value))
        return found

    def restore(self) -> bool:
        """Restore what has changed since the checkpoint; return False if a tensor without a copy has changed."""
        for container, content in self.containers.values():
            container.restore(content)
        changed = [(tensor, copied) for tensor, version, copied in self.tensors if tensor._version != version]
        for tensor, copied in changed:
            if copied is not None:
                _write(tensor, copied)
        return all(copied is not None for _, copied in changed)


def is_plain(value: Any) -> bool:
    """Whether facts may hold a value."""
    if isinstance(value, bool | int | float | complex | str | bytes | None | FunctionType):
        return True
    if isinstance(value, tuple | frozenset):
        return len(value) < _LONG and all(map(is_plain, value))
    return type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device")


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def look(model: Any) -> World:
    """Take a checkpoint of everything that is reachable from a model, of the environment and of torch's switches."""
    import torch

    world = World()
    tensors: dict[int, Any] = {}
    for container in (*free_standing(), *_reachable(model, tensors)):
        world.containers.setdefault((container.kind, container.path), (container, container.content()))
    watched = {id(each) for each in model.parameters()} if isinstance(model, torch.nn.Module) else set()
    world.tensors = list(_copies(tensors.values(), watched))
    return world


def _reachable(model: Any, tensors: dict[int, Any]) -> Iterator[Container]:
    """Yield containers breadth first, so that each has its shortest path; collect the tensors in `tensors`."""
    import torch

    seen: dict[int, Any] = {}  # keeps the values alive, so that no temporary object frees its id
    waiting = deque([("model", "attribute", model)])
    while waiting and len(seen) < _MOST_CONTAINERS:
        path, kind, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            tensors[id(value)] = value
            continue
        container = container_of(path, kind, value)
        if container is not None:
            yield container
        waiting.extend(children(container, path, kind, value))


def _copies(tensors: Iterable[Any], watched: set[int]) -> Iterator[tuple[Any, int, Any]]:
    """Yield each tensor with its version and a copy; the copy is None for parameters and beyond `_MOST_BYTES`.

    Parameters are large, and a forward seldom changes one.
    """
    import torch

    left = _MOST_BYTES
    for tensor in tensors:
        if (
            tensor.is_inference() or tensor.layout is not torch.strided
        ):  # an inference tensor has no version, other layouts have no bytes
            continue
        size = 0 if id(tensor) in watched else tensor.numel() * tensor.element_size()
        left -= size
        yield tensor, tensor._version, tensor.detach().clone() if left > 0 and id(tensor) not in watched else None


def _write(tensor: Any, copied: Any) -> None:
    import torch

    with torch.no_grad():
        if tensor.shape == copied.shape:
            tensor.copy_(copied)
        else:
            tensor.data = copied
