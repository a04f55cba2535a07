"""The rule for a compiled value that differs from eager: is it wrong, or only rounded differently?

Three calls compute a value: eager, compiled, and the reference, which is eager in float64. The errors of eager and of
compiled code are their distances from the reference. **Compiled code is wrong if its error is larger than eager's
error can explain**, by any of these measures over a tensor:

- the root mean square of the errors may be 3 times eager's (5 times for fewer than 1000 values),
- the largest error may be 5 times eager's, so that one wrong value of a million is found,
- the largest error relative to its value may be 5 times eager's, so that small values beside large ones count,
- the mean error, and the mean relative excess of the values, may be 5 times eager's: rounding errors cancel in a mean,
  so it shows a wrong scale or a lost constant even if each single error could come from rounding.

Each limit also allows one rounding of the dtype (16 in float32), or half of that for averaged errors. Eager's error is
the largest of several eager calls: the plain one and, if that does not explain the difference, calls that round every
operation at random (`Noisy`). One call may hit the exact result by luck, and compiled code may do whatever rounding
alone can do to eager. A gradient may also lose 1e-5 of the largest gradient. A gradient no larger than one rounding of
the largest, in the coarsest dtype of the call, cannot be judged: its error may be as large as itself.

Integers, booleans and other values that are not rounded must equal eager's. If the reference or a randomly rounded
eager call differs from eager there, too, the value depends on a near tie and cannot be judged. If there are many near
ties, these calls miss some. The number of missed ones is estimated, and that many more values may differ. The same rule
applies to NaN and infinities, which must be where eager has them; compiled code may be finite where the reference is
finite and eager is not, or overflow where the reference does. A value that cannot be judged is `not compared`. So is a
tensor if rounding alone changes more than a third of it: any result would pass.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.comparing.compare_results import ABSENT, rms, unlike, wide
from ctrace.inspector.capture.comparing.precision import FLOAT32, Precision, precision_of
from ctrace.inspector.capture.comparing.snapshots import ContainerParts, kind_of

# The mean of many errors varies less than the largest of them, so its limit is tighter.
_RMS_TIMES, _TIMES = 3.0, 5.0
_SMALLEST = 4.0
"""Absolute error that is always allowed, as a multiple of the dtype's smallest value."""
# Below this, the mean square of errors varies between two correct calls by more than the limit allows.
_FEW = 1000
_ENOUGH = 4
"""Number of calls from which to estimate how often rounding changes a value."""
# Chosen: if eager in the model's own dtypes is off by a third of the result, no error of compiled code stands out from
# its noise.
_HOPELESS = 1 / 3


class Judgement(Enum):
    """The outcome for one value."""

    FINE = "fine"
    WRONG = "wrong"
    UNDECIDED = "undecided"


class Judged(Struct, frozen=True):
    """A judgement with the errors by compiled code's worst measure; they are None if the values are not numbers."""

    judgement: Judgement
    eager_error: float | None = None
    compiled_error: float | None = None
    why: str = ""
    """Why the judgement is undecided."""

    @property
    def ratio(self) -> float:
        """Compiled code's error as a multiple of eager's."""
        if self.eager_error is None or self.compiled_error is None:
            return 0.0
        if self.eager_error:
            return self.compiled_error / self.eager_error
        return math.inf


NEAR_TIE = "rounding alone changes which integers, flags or sizes eager gives"
HOPELESS = "rounding alone changes more than a third of what eager gives"
NOT_FINITE = "eager overflows where a more exact call does not"
TINY = "a gradient is zero but for rounding"
NO_NUMBERS = "the reference overflows where eager does not"


def judged(
    eager: Any, compiled: Any, reference: Any, noisy: Sequence[Any], scale: float = 0.0, coarsest: Precision = FLOAT32
) -> Judged:
    """Judge a value by this module's rule.

    Args:
        noisy: the results of eager calls that were rounded at random.
        scale: root mean square of the largest gradient, for a gradient.
        coarsest: bounds of the call's dtype that rounds most.
    """
    import torch

    # A call in other arithmetic may return fewer values, which say nothing of this place.
    others = [each for each in (reference, *noisy) if each is not ABSENT]
    if _is_float(eager) and _is_float(compiled):
        eager, compiled = torch.tensor(eager, dtype=torch.float64), torch.tensor(compiled, dtype=torch.float64)
        others = [torch.tensor(each, dtype=torch.float64) for each in others if _is_float(each)]
        # A float of Python mostly comes from a tensor of the model, by `item`, and has its rounding.
        precision: Precision | None = FLOAT32
    else:
        precision = None
        if isinstance(eager, torch.Tensor):
            precision = precision_of(eager.dtype)
    if precision is None or not isinstance(compiled, torch.Tensor) or unlike(eager, compiled):
        return _exact(eager, compiled, others)
    alike = [each for each in others if isinstance(each, torch.Tensor) and each.shape == eager.shape]
    if reference is ABSENT or len(alike) < len(others):
        return Judged(Judgement.UNDECIDED, why=NEAR_TIE)
    truth, *samples = map(wide, alike)
    # A value one rounding below the largest may round to infinity.
    overflows = torch.finfo(eager.dtype).max * (1 - 2 * precision.roundoff)
    numbers = _Numbers(wide(eager), wide(compiled), truth, samples, precision, overflows, scale, coarsest.rms * scale)
    return numbers.judged()


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _exact(eager: Any, compiled: Any, others: Sequence[Any]) -> Judged:
    """Judge a value that is not rounded; return UNDECIDED if rounding may change eager's value."""
    import torch

    if isinstance(eager, torch.Tensor) and isinstance(compiled, torch.Tensor):
        if eager.dtype != compiled.dtype:
            return Judged(Judgement.WRONG)
        if eager.shape == compiled.shape and all(_shape(each) == eager.shape for each in others):
            # How many calls changed each value: one that none of them changed depends on no near tie, as far as they
            # show.
            moved = torch.stack([each != eager for each in (eager, *others)]).sum(0)
            unseen = int(((eager != compiled) & (moved == 0)).sum())
            wrong = unseen > (_ties_unseen(int((moved == 1).sum()), len(others)) if bool(moved.any()) else 0)
            if wrong:
                return Judged(Judgement.WRONG)
            return Judged(Judgement.UNDECIDED, why=NEAR_TIE)
    unsettled = any(_form(each) != _form(eager) for each in others)
    if unsettled:
        return Judged(Judgement.UNDECIDED, why=NEAR_TIE)
    return Judged(Judgement.WRONG)


def _ties_unseen(once: int, calls: int) -> float:
    """Return an upper bound on the number of values that depend on a near tie but that no call has changed.

    The estimate is Good and Turing's: the values that exactly one call has changed, divided by the number of calls. Add
    one to that count, because it may be zero by chance; the bound is twice the estimate plus three deviations.
    """
    expected = 0.0
    if calls >= _ENOUGH:
        expected = (once + 1) / calls
    return 2 * expected + 3 * math.sqrt(expected)


def _shape(value: Any) -> Any:
    return getattr(value, "shape", None)


def _form(value: Any) -> Any:
    """Return what rounding does not change: the sizes of tensors and containers, and plain values."""
    import torch

    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, ContainerParts):
        return value.kind, value.items.keys()
    if isinstance(value, bool | int | str | bytes | None):
        return value
    return kind_of(value)


class _Numbers(Struct, frozen=True):
    """The values of one tensor in each call, all in float64."""

    eager: Any
    compiled: Any
    truth: Any
    samples: list[Any]
    precision: Precision
    overflows: float
    """The magnitude above which values may be rounded to infinity."""
    scale: float
    tiny: float
    """A gradient below this is no larger than one rounding of the largest gradient."""

    def judged(self) -> Judged:
        strange = self._strange()
        finite = self.eager.isfinite() & self.compiled.isfinite() & self.truth.isfinite()
        numbers = self._measured(finite)
        # A wrong number outweighs an open question, wherever it is.
        for judgement in (Judgement.WRONG, Judgement.UNDECIDED):
            for each in (numbers, strange):
                if each.judgement is judgement:
                    return each
        return numbers

    def _strange(self) -> Judged:
        """Judge NaN and infinities."""
        eager, compiled, truth = self.eager, self.compiled, self.truth
        # Open is where compiled code is not as eager, and one of the three is not finite; the rest is measured.
        open_ = ~_same(eager, compiled) & ~(eager.isfinite() & compiled.isfinite() & truth.isfinite())
        if not bool(open_.any()):
            return Judged(Judgement.FINE)
        by_rounding = ~_same(eager, eager)  # nowhere
        for sample in self.samples:
            by_rounding |= _same(sample, compiled)
        overflow = compiled.isinf() & (truth * compiled.sign() >= self.overflows)
        exact = _same(truth, compiled) | overflow
        # Not finite where neither float64, rounding nor an overflow of the dtype explains it.
        lost = ~compiled.isfinite() & ~exact & ~by_rounding
        # A number where both eager and float64 have none.
        invented = compiled.isfinite() & ~eager.isfinite() & ~truth.isfinite() & ~by_rounding
        if bool((open_ & (lost | invented)).any()):
            return Judged(Judgement.WRONG)
        if bool((open_ & compiled.isfinite() & eager.isfinite() & ~truth.isfinite()).any()):
            return Judged(Judgement.UNDECIDED, why=NO_NUMBERS)
        better = open_ & compiled.isfinite() & truth.isfinite()
        # No error of eager is known there, so the tolerances of the dtype bound how near is near.
        around = 4 * max(self.precision.rms, self.precision.largest)
        near = (compiled - truth).abs() <= around * (truth.abs() + rms(truth[truth.isfinite()]))
        if bool((better & ~near).any()):
            return Judged(Judgement.UNDECIDED, why=NOT_FINITE)
        return Judged(Judgement.FINE)

    def _measured(self, finite: Any) -> Judged:
        truth, off = self.truth[finite], (self.compiled - self.truth)[finite]
        if not off.numel():
            return Judged(Judgement.FINE)
        # A call that overflowed at a place has no error there.
        errors = [(each - self.truth)[finite].nan_to_num(0.0, 0.0, 0.0) for each in (self.eager, *self.samples)]
        worst = max(self._measures(truth, off, errors), key=lambda each: each.times)
        if worst.times > 1:
            if max(rms(truth), rms(off)) <= self.tiny:
                return Judged(Judgement.UNDECIDED, worst.eager, worst.compiled, TINY)
            return Judged(Judgement.WRONG, worst.eager, worst.compiled)
        if max(map(rms, errors)) > _HOPELESS * max(rms(truth), self.scale):
            return Judged(Judgement.UNDECIDED, worst.eager, worst.compiled, HOPELESS)
        return Judged(Judgement.FINE, worst.eager, worst.compiled)

    def _measures(self, truth: Any, off: Any, errors: list[Any]) -> Iterator["_Measure"]:
        values, by = truth.abs(), self.precision.rms
        # What flushing to zero may take away, and, of a gradient, what is nothing beside the largest one.
        lost = _SMALLEST * self.precision.smallest + FLOAT32.largest * self.scale
        size, middle = rms(truth), _median(values[values > 0])

        def measure(of: Callable[[Any], float], times: float, more: float) -> _Measure:
            return _Measure(max(map(of, errors)), of(off), times, more)

        def drift(weights: Any, more: float) -> _Measure:
            # Eager's errors may cancel by chance, so add what they could have added up to.
            eager = max(
                abs(float((each * weights).mean())) + rms(each * weights) / off.numel() ** 0.5 for each in errors
            )
            return _Measure(eager, abs(float((off * weights).mean())), _TIMES, more)

        yield measure(rms, _TIMES if off.numel() < _FEW else _RMS_TIMES, by / 2 * size + lost)
        yield measure(lambda each: float(each.abs().max()), _TIMES, by * float(values.max()) + lost)
        yield drift(1.0, by / 2 * size + lost)
        # Without a value above zero, there is none to relate an error to.
        if middle > 0:
            # Relative to the value itself, but not below the median: an error of a value near zero says nothing.
            base = values + middle
            yield measure(lambda each: float((each.abs() / base).max()), _TIMES, by + lost / middle)
            yield drift(truth.sign() / base, by / 2 + lost / middle)


def _median(values: Any) -> float:
    if values.numel():
        return float(values.median())
    return 0.0


class _Measure(Struct, frozen=True):
    """One measure of both errors, and its limit for compiled code: a multiple of eager's error, plus `more`."""

    eager: float
    compiled: float
    allowed_times: float
    more: float

    @property
    def times(self) -> float:
        """The error of compiled code as a fraction of the limit."""
        allowed = self.allowed_times * self.eager + self.more
        if allowed:
            return self.compiled / allowed
        if not self.compiled:
            return 0.0
        return math.inf


def _same(one: Any, other: Any) -> Any:
    return (one == other) | (one.isnan() & other.isnan())
