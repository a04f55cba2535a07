"""Round eager at random as `Noisy` does, and sums as much as one addition after the other would in float32.

Eager adds up in pairs, or in many partial sums, and is close to the exact sum by its algorithm, not by luck; a kernel
may add one term after the other, and is no less right. Its rounding errors follow from the partial sums S_k that it
goes through: each addition rounds one of them, by at most 2^-24 of it, at random. So a sum of n terms is off by about
2^-24 times the root of the sum of all S_k^2: of n/3 times the result if all terms have one sign, of little more than
the terms if they cancel on the way. A constant or a number of terms would be too much for the one or too little for
the other.
"""

from typing import Any

from ctrace.inspector.capture.comparing.arithmetic import Noisy, operation
from ctrace.inspector.capture.comparing.precision import FLOAT32, FLOAT64, precision_of

_SUMS = ("sum", "mean", "cumsum")


class NoisySums(Noisy):
    """Noisy arithmetic, in which the order of additions counts."""

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = super()._run(func, args, kwargs)
        precision = precision_of(getattr(result, "dtype", None))
        if operation(func) not in _SUMS or precision is None or result.is_complex() or not args[0].numel():
            return result
        roundoff = FLOAT64.roundoff if precision is FLOAT64 else FLOAT32.roundoff
        import torch

        size = rounding_of(operation(func), args, result) * roundoff
        generator = self._generator(result.device)
        noise = torch.randn(size.shape, generator=generator, dtype=size.dtype, device=size.device)
        return (result.double() + noise * size).to(result.dtype)


def rounding_of(name: str, args: Any, result: Any) -> Any:
    """Return the root of the sum of the squares of all partial sums, for each sum of a result."""
    terms = args[0].double()
    dims = args[1] if len(args) > 1 and args[1] is not None else None
    if name == "cumsum":
        return terms.cumsum(dims).square().cumsum(dims).sqrt()
    terms = terms if terms.dim() else terms.reshape(1)
    if dims is None or dims == []:
        dims = list(range(terms.dim()))
    reduced = sorted(each % terms.dim() for each in ([dims] if isinstance(dims, int) else dims))
    kept = [each for each in range(terms.dim()) if each not in reduced]
    rows = terms.permute(*kept, *reduced).flatten(len(kept))
    found = rows.cumsum(-1).square().sum(-1).sqrt()
    if name == "mean":
        found = found / rows.shape[-1]
    return found.reshape(result.shape)
