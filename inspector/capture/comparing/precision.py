"""The precision of each dtype, and how far two correct calls in it may differ."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec import Struct


class Precision(Struct, frozen=True):
    """Error bounds of a floating dtype, each relative to the values that it applies to."""

    roundoff: float
    """Largest relative error of rounding one value."""
    largest: float
    """Limit on the difference of two results in any value, as a fraction of the largest value."""
    rms: float
    """Limit on the root mean square of the differences, as a fraction of that of the values."""
    emitted: float
    """Limit instead of `largest` if there is no reference, for graphs that ran eagerly."""
    built: float
    """Limit instead of `largest` if there is no reference, for built kernels, which round differently."""
    smallest: float
    """Values below this are rounded absolutely, or flushed to zero."""


FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = (
    Precision(2**-11, 1e-3, 5e-4, 2e-3, 1e-2, 2**-24),
    Precision(2**-8, 8e-3, 4e-3, 2e-2, 5e-2, 2**-126),
    Precision(2**-24, 1e-5, 1e-6, 1e-5, 1e-4, 2**-126),
    Precision(2**-53, 1e-9, 1e-10, 1e-9, 1e-7, 2**-1022),
)
"""torch.testing.assert_close allows 1e-3, 1.6e-2, 1.3e-6 and 1e-7 of each value; an inner sum may lose more."""
TF32 = 2**-11
"""Relative error of rounding a float32 factor to TF32."""

_KNOWN = {
    "float16": FLOAT16,
    "complex32": FLOAT16,
    "bfloat16": BFLOAT16,
    "float32": FLOAT32,
    "complex64": FLOAT32,
    "float64": FLOAT64,
    "complex128": FLOAT64,
}


def precision_of(dtype: Any) -> Precision | None:
    """Return the bounds of a torch dtype, or None for integers, booleans and quantized dtypes."""
    # By name, so that no torch has to be imported, and dtypes that this torch lacks do no harm.
    return _KNOWN.get(str(dtype).removeprefix("torch."))


def coarser(one: Precision, other: Precision) -> Precision:
    """Return the bounds of the dtype that rounds more."""
    if one.roundoff >= other.roundoff:
        return one
    return other


def matmul_roundoff(device: str) -> float:
    """Return the relative error to which a device may round float32 factors of a matmul or convolution, or 0."""
    settings = set(_settings(device))
    if device == "cuda":
        # `True` is what the older switches, `allow_tf32`, return.
        if settings & {"medium", "high", "tf32", "True"}:
            return TF32
        return 0.0
    if settings & {"medium", "bf16"}:
        return BFLOAT16.roundoff
    if settings & {"high", "tf32"}:
        return TF32
    return 0.0


def _settings(device: str) -> Iterator[str]:
    """Yield the value of every switch; torch refuses to read an old one after a new one was set, and vice versa."""
    import torch

    reads: list[Callable[[], Any]] = [torch.get_float32_matmul_precision]
    if device == "cuda":
        cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        reads += [lambda: cuda.allow_tf32, lambda: cudnn.allow_tf32]
        names = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")
    else:
        names = ("mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
    reads += [partial(attrgetter(f"backends.{name}.fp32_precision"), torch) for name in names]
    for read in reads:
        # Torch refuses some, and older ones lack others: each that answers counts.
        with suppress(AttributeError, RuntimeError):
            yield str(read())
