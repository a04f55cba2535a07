"""Other objects of a class: what callers choose for an attribute, in another type or form.

Two programs that agree for the objects that a file makes may differ for `Net(rate=1.5)`, where the file makes
`Net(rate=2)`; for an anchor that is one number; for two names of one tensor.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import ATTRIBUTE

Value = Callable[[Any], Any]


def other_values(model: Any, paths: tuple[str, ...]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield changes of a model by name: each gives an attribute that callers choose a value of another kind."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return
    for path in paths:
        held = [vars(each)[path] for each in model.modules() if path in vars(each)]
        for kind in dict.fromkeys(kind for each in held for kind in _kinds(each)):
            yield f"{ATTRIBUTE}{path} as {kind}", _setting(path, kind)


def _kinds(value: Any) -> dict[str, Value]:
    """Return what else an attribute with this value may hold, by what it is then."""
    import torch

    if type(value) is int:
        return {"a fraction": lambda number: number + 0.5}
    if isinstance(value, torch.dtype):
        return {f"{name}": lambda _, to=name: getattr(torch, to) for name in ("int32", "float64")}  # type: ignore[misc]
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
        rows = {"one row in memory": lambda leaf: leaf.detach()[:1].clone().expand(leaf.shape)}
        is_long = value.dim() > 0 and value.shape[0] > 1
        return {"a number": lambda leaf: float(leaf.detach().float().mean()), **(rows if is_long else {})}
    if isinstance(value, dict) and len([each for each in value.values() if isinstance(each, torch.Tensor)]) > 1:
        return {"one tensor": _of_one_tensor}
    return {}


def _of_one_tensor(value: dict[Any, Any]) -> Any:
    """Return a dictionary in which all tensors of one form are the same one."""
    import torch

    first: dict[Any, Any] = {}
    made = {
        key: first.setdefault((each.shape, each.dtype), each) if isinstance(each, torch.Tensor) else each
        for key, each in value.items()
    }
    return made if type(value) is dict else type(value)(made)


def _setting(path: str, kind: str) -> Callable[[Any], Any]:
    def prepare(model: Any) -> Any:
        changed = False
        for each in model.modules():
            value = _kinds(vars(each)[path]).get(kind) if path in vars(each) else None
            if value is not None:
                setattr(each, path, value(vars(each)[path]))
                changed = True
        if not changed:
            raise TargetError("no such attribute", "")
        return model

    return prepare
