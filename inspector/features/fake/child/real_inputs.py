"""Draw the random numbers of inputs that the model file marks as real: `real = ("tokens",)` or `real = (0,)`."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child.storageless_mode import KnownValues

_NAME = "real"


def mark_real(module: ModuleType, values: KnownValues) -> None:
    """Let the file's `inputs` keep the values of the arguments that its `real` names, by position or by keyword.

    Raises:
        TargetError: the file makes its inputs before anybody can read `real`, or `real` is something else.
    """
    marked = getattr(module, _NAME, None)
    if marked is None or not hasattr(module, "inputs"):
        return
    if not isinstance(marked, tuple | list) or not all(isinstance(each, int | str) for each in marked):
        raise TargetError(
            f"real has type {type(marked).__name__}", 'name inputs: real = ("tokens",), or by position: (0,)'
        )
    if not callable(module.inputs):
        raise TargetError(
            "real names inputs that were made before it was read", "make them in def inputs(): return ..."
        )
    module.inputs = _keeping(module.inputs, marked, values)  # type: ignore[attr-defined]


def _keeping(inputs: Callable[[], Any], marked: Any, values: KnownValues) -> Callable[[], Any]:
    def made() -> Any:
        values.keeps_random = True
        try:
            found = inputs()
        finally:
            values.keeps_random = False
        _forget(found, marked, values)
        return found

    return made


def _forget(found: Any, marked: Any, values: KnownValues) -> None:
    """Forget the values of all inputs that are not marked."""
    import torch
    from torch.utils import _pytree

    pairs = enumerate(found) if isinstance(found, tuple | list) else [(0, found)]
    named = found.items() if isinstance(found, Mapping) else pairs
    for name, value in named:
        if name not in marked:
            for leaf in _pytree.tree_leaves(value):
                if isinstance(leaf, torch.Tensor):
                    values.forget(leaf)
