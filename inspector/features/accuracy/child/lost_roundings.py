"""Find the rounding to 16 bits that eager makes after an operation, and a fused kernel leaves out.

The nodes are computed in float32, which is what both compute with. Usually the kernel rounds at its end only: its
values are those without any other rounding. Then the operation whose rounding alone changes most values is the one; of
several with the same effect, the first, since operations such as `relu` only pass on what is rounded. If the kernel
has some of the roundings, it is the operation without whose rounding most values are the kernel's.
"""

from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.features.accuracy.child.node_values import Values, name_in_eager, written_arguments

_FITS = 0.02
"""The share of values that another order of float32 operations may change in their 16 bits."""


class LostRounding(Struct, frozen=True):
    """An operation whose result the kernel keeps in float32."""

    node: Any
    dtype: str


def lost_rounding(module: Any, nodes: list[Any], known: Values, node: Any, value: Any) -> LostRounding | None:
    """Return the operation whose rounding explains most of the difference; None: none explains any."""
    short = [each for each in nodes if is_short(each) and each is not node]
    if not short or any(map(written_arguments, nodes)):
        return None
    with_none = _share(_values(module, nodes, known, set(short))[node], value)
    if with_none <= _FITS:
        shares = {each: _share(_values(module, nodes, known, {*short} - {each})[node], value) for each in short}
        best = max(short, key=lambda each: shares[each])
        explains = shares[best] > with_none
    else:
        with_all = _share(_values(module, nodes, known, set())[node], value)
        shares = {each: _share(_values(module, nodes, known, {each})[node], value) for each in short}
        best = min(short, key=lambda each: shares[each])
        explains = shares[best] < with_all
    if not explains:
        return None
    return LostRounding(best, str(best.meta["val"].dtype).removeprefix("torch."))


def reason_of(found: LostRounding) -> str:
    """Say which rounding is lost."""
    return f"the fused kernel keeps {name_in_eager(found.node)} in float32, where eager rounds it to {found.dtype}"


def _values(module: Any, nodes: list[Any], known: Values, unrounded: set[Any]) -> Values:
    import torch
    from torch import fx
    from torch.utils import _pytree

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.float() if value.dtype in short_dtypes() else value
        return torch.float32 if isinstance(value, torch.dtype) and value in short_dtypes() else value

    values: Values = {}
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        for node in nodes:
            if node.op == "get_attr":
                values[node] = wide(getattr(module, str(node.target)))
                continue
            args, kwargs = fx.map_arg((node.args, node.kwargs), {**known, **values}.__getitem__)
            args, kwargs = _pytree.tree_map(wide, (args, kwargs))
            result = node.target(*args, **kwargs)
            if is_short(node) and node not in unrounded:
                result = result.to(node.meta["val"].dtype)
            values[node] = result
    return values


def _share(one: Any, other: Any) -> float:
    """Return the share of values that differ in the kernel's dtype."""
    return float((one.to(other.dtype) != other).float().mean())


def short_dtypes() -> tuple[Any, ...]:
    """Return the dtypes of 16 bits."""
    import torch

    return (torch.float16, torch.bfloat16)


def is_short(node: Any) -> bool:
    """Whether a node has a value of 16 bits."""
    dtype = getattr(node.meta.get("val"), "dtype", None)
    return dtype in short_dtypes() and precision_of(dtype) is not None
