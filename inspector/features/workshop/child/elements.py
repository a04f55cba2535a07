"""Find the first value in which two tensors differ."""

import math
from typing import Any

from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.features.workshop.package_model import Element

_NOISE = 4.0
"""How much larger than the difference of two correct results the difference of a third may be."""
_LOOSER = 2.0
"""Both sides round: a fused kernel keeps float32 where the graph's ops round to the tensor's dtype."""


def first_difference(
    name: str, expected: Any, found: Any, *, relative: float = 0.0, noise: float = 0.0
) -> tuple[float, Element | None]:
    """Return the largest difference relative to the largest value, and the first value that differs, if one does.

    Args:
        relative: a relative tolerance that is allowed whatever the dtype.
        noise: an absolute difference that is allowed, such as that of two correct results.
    """
    import torch

    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        same = type(expected) is type(found) and bool(expected == found)
        if same:
            return (0.0, None)
        return (1.0, Element(name, (), _number(expected), _number(found), 1, 1))
    if expected.shape != found.shape:
        return float("inf"), Element(name, (), f"{list(expected.shape)}", f"{list(found.shape)}", 0, 0)
    if not expected.numel():
        return 0.0, None
    one, other = _wide(expected), _wide(found)
    gap = (one - other).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    gap = torch.where(same, torch.zeros_like(gap), torch.nan_to_num(gap, nan=float("inf")))
    finite = torch.where(one.isfinite(), one.abs(), torch.zeros_like(one))
    precision = precision_of(expected.dtype)
    tolerance = 1.0
    if precision is not None:
        tolerance = max(precision.largest * _LOOSER, relative)
    # Where values cancel to rounding errors, the largest value is no scale for a difference.
    scale = max(float(finite.max()), noise / tolerance) or 1.0
    around = float(finite.square().mean().sqrt())
    if precision is None:
        wrong = ~same
    else:
        wrong = gap > tolerance * (finite + around) + noise
    by = float(gap.max()) / scale
    if not bool(wrong.any()):
        return by, None
    # torch has no argmax of booleans.
    flat = int(wrong.flatten().to(torch.int8).argmax())
    if wrong.dim():
        at = tuple(int(each) for each in torch.unravel_index(torch.tensor(flat), wrong.shape))
    else:
        at = ()
    element = Element(name, at, f"{float(one[at]):.6g}", f"{float(other[at]):.6g}", int(wrong.sum()), wrong.numel())
    return by, element


def noise_of(one: Any, other: Any) -> float:
    """Return the largest absolute difference of two correct results; 0 if there is no finite one."""
    import torch

    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.shape != other.shape:
        return 0.0
    gap = (_wide(one) - _wide(other)).abs()
    gap = gap[gap.isfinite()]
    if gap.numel():
        return float(gap.max()) * _NOISE
    return 0.0


def _wide(tensor: Any) -> Any:
    import torch

    plain = tensor.detach()
    if plain.is_complex():
        plain = plain.abs()
    # In float64 on the CPU: the difference of two values is then exact enough, and Apple's GPUs have no float64.
    return plain.to("cpu", torch.float64)


def _number(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:.6g}"
    return type(value).__name__


def finite(value: float) -> float | None:
    """Return a number that JSON has, or None."""
    if math.isfinite(value):
        return value
    return None
