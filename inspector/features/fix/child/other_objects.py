"""Other objects of a class: what callers choose for an attribute, in another type or form.

Two programs that agree for the objects that a file makes may differ for `Net(rate=1.5)`, where the file makes
`Net(rate=2)`; for an anchor that is one number; for two names of one tensor.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import ATTRIBUTE, Mined
from ctrace.inspector.features.fix.child.method_arguments import modules_of, own

Value = Callable[[Any], Any]

_TENSOR = "a tensor in float64"
_ONE_ELEMENT = "a tensor in float64 with one element"

_OPTIONS = (("none", "mean", "sum"), ("valid", "same"))
"""What ops of torch take as `reduction` and `padding`: results have other dimensions or sizes then."""


def other_values(model: Any, mined: Mined) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield changes of a model by name: each gives an attribute that callers choose a value of another kind."""
    for path in mined.chosen:
        held = [place.value for each in modules_of(model) for place in _places(each, path)]
        for kind in dict.fromkeys(kind for each in held for kind in _kinds(each)):
            yield f"{ATTRIBUTE}{path} as {kind}", _setting(path, kind)
    # A tensor without dimensions changes a dtype beside integers and such tensors only. One with a dimension does so
    # everywhere, and would open a question for most right branches: a default says that a number is meant.
    for kind, paths in ((_TENSOR, mined.untyped), (_ONE_ELEMENT, mined.undefined)):
        for path in paths:
            held = [place.value for each in modules_of(model) for place in _places(each, path)]
            if any(type(each) in (int, float) for each in held):
                yield f"{ATTRIBUTE}{path} as {kind}", _setting(path, kind)


class _Place(NamedTuple):
    """Where a value is: an attribute of an object, or an entry of a dictionary."""

    holder: Any
    key: Any
    value: Any

    def set(self, value: Any) -> None:
        """Replace the value, also a field of a frozen dataclass.

        Raises:
            TargetError: a buffer would be no tensor.
        """
        import torch

        store = _store(self.holder, self.key)
        is_buffer = isinstance(self.holder, torch.nn.Module) and store is self.holder._buffers
        if is_buffer and not isinstance(value, torch.Tensor):
            raise TargetError("a buffer is a tensor", "")
        store[self.key] = value


def _store(holder: Any, key: Any) -> dict[Any, Any]:
    """Return where an object has an attribute, or a dictionary an entry: a module may register it as a buffer."""
    import torch

    if isinstance(holder, dict):
        return holder
    if isinstance(holder, torch.nn.Module) and key in holder._buffers:
        return holder._buffers
    return own(holder)


def _places(module: Any, path: str) -> Iterator[_Place]:
    """Yield where a module has `rate`, `config.rate` or `options['rate']`, if it does."""
    keys: list[Any] = []
    # Paths may have subscripts, and a parser reads them as Python does.
    node = ast.parse(f"self.{path}", mode="eval").body
    while isinstance(node, ast.Attribute | ast.Subscript):
        keys.insert(0, node.attr if isinstance(node, ast.Attribute) else getattr(node.slice, "value", None))
        node = node.value
    holder, value = None, module
    for key in keys:
        holder, store = value, _store(value, key)
        if key not in store:
            return
        value = store[key]
    yield _Place(holder, keys[-1], value)


def _kinds(value: Any) -> dict[str, Value]:
    """Return what else an attribute with this value may hold, by what it is then."""
    import torch
    from torch.utils import _pytree

    if isinstance(value, bool):
        return {"the opposite": lambda flag: not flag}
    if type(value) is int:
        return {"a fraction": lambda number: number + 0.5, "a larger number": lambda number: number + 1}
    for words in _OPTIONS:
        if isinstance(value, str) and value in words:
            return {repr(word): lambda _, to=word: to for word in words if word != value}  # type: ignore[misc]
    if isinstance(value, torch.dtype):
        return {f"{name}": lambda _, to=name: getattr(torch, to) for name in ("int32", "float64")}  # type: ignore[misc]
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
        rows = {"one row in memory": lambda leaf: leaf.detach()[:1].clone().expand(leaf.shape)}
        is_long = value.dim() > 0 and value.shape[0] > 1
        others: dict[str, Value] = {
            "a number": lambda leaf: float(leaf.detach().float().mean()),
            "float64": lambda leaf: leaf.detach().double(),
        }
        if is_long:
            others.update(rows)
        return others
    found: dict[str, Value] = {}
    if value and (type(value) in (list, tuple) or isinstance(value, dict)):
        found["an empty one"] = _emptied
        if len([each for each in _pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]) > 1:
            found["one tensor"] = _of_one_tensor
    return found


def _as_tensors(value: Any) -> dict[str, Value]:
    """Return the tensors that a caller may pass for a number, as it learned or loaded it."""
    import torch

    if type(value) not in (int, float):
        return {}
    return {
        _TENSOR: lambda number: torch.tensor(number, dtype=torch.float64),
        _ONE_ELEMENT: lambda number: torch.tensor([number], dtype=torch.float64),
    }


def _emptied(value: Any) -> Any:
    """Return a container of the same class without elements; one with default values gets what is read from it."""
    if not isinstance(value, dict):
        return type(value)()
    # A copy, which keeps the default of a defaultdict; its constructor would take it as an argument.
    made = copy.copy(value)
    made.clear()
    return made


def _of_one_tensor(value: Any) -> Any:
    """Return a container in which all tensors of one form are the same one."""
    import torch
    from torch.utils import _pytree

    first: dict[Any, Any] = {}
    return _pytree.tree_map_only(
        torch.Tensor, lambda leaf: first.setdefault((leaf.shape, leaf.dtype, leaf.requires_grad), leaf), value
    )


def _setting(path: str, kind: str) -> Callable[[Any], Any]:
    def prepare(model: Any) -> Any:
        changed = False
        for place in [place for each in modules_of(model) for place in _places(each, path)]:
            value = {**_kinds(place.value), **_as_tensors(place.value)}.get(kind)
            if value is not None:
                place.set(value(place.value))
                changed = True
        if not changed:
            raise TargetError("no such attribute", "")
        return model

    return prepare
