"""Decide whether a compiled call's results are wrong: by equality with eager, by the float64 rule, or by tolerances.

`judgement` has the float64 rule for one value. This module makes the extra eager calls that the rule needs, only if
results differ from eager's, and applies tolerances if a call in float64 is impossible.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic
from ctrace.inspector.capture.comparing.compare_results import (
    Leaf,
    Path,
    described_difference,
    disagreeing,
    magnitude,
    rms,
    value_at,
    wide,
    within_tolerances,
)
from ctrace.inspector.capture.comparing.eager import EagerError, EagerRun
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import NO_NUMBERS, Judged, Judgement, judged
from ctrace.inspector.capture.comparing.precision import FLOAT64
from ctrace.inspector.errors import TargetError, telling_line
from ctrace.inspector.facts.scenario_facts import Rule

# The estimate of missed near ties begins at four calls (`judgement.py:_ENOUGH`); eight are twice that.
_NOISY_CALLS = 8
_SECONDS = 120.0
"""Limit in seconds for all extra eager calls of a capture; the time of a plain call predicts theirs."""
_SLOWER = 8
"""Approximate time of a call in other arithmetic, as a multiple of a plain call's."""

Run = Callable[[WatchedArithmetic], EagerRun | None]
"""Calls the model in eager, in the world of the compiled call, with other arithmetic."""


class EagerBudget(Struct):
    """Seconds left for extra eager calls."""

    seconds: float = _SECONDS

    def allows(self, call: float) -> bool:
        """Reserve the seconds that a call is expected to take; return False if not enough are left."""
        expected = call * _SLOWER
        allowed = expected <= self.seconds
        # Reserved before the call, because one that is too slow cannot be stopped halfway.
        self.seconds -= expected if allowed else 0
        return allowed


class ResultVerdict(Struct, frozen=True):
    """Whether results are wrong, how that was decided, and how they differ."""

    judgement: Judgement
    rule: Rule
    eager_error: float | None = None
    compiled_error: float | None = None
    difference: str = ""
    why: str = ""
    """Why the verdict is undecided."""
    no_reference: str = ""
    """Why there is no float64 reference, if one was needed."""
    path: Path = ()
    """The place in the results that decided; empty: they agree."""


AGREED = ResultVerdict(Judgement.FINE, Rule.DIRECT)


class Court:
    """Judges one compiled call."""

    def __init__(
        self,
        eager: EagerRun,
        watched: WatchedArithmetic,
        run: Run,
        budget: EagerBudget,
        *,
        built: bool,
        room: bool = True,
    ) -> None:
        self._eager = eager
        self._watched = watched
        self._run = run
        self._budget = budget
        self._built = built
        self._room = room
        self._noisy: list[CallResults] = []
        self.refused = ""
        self.wrong: list[ResultVerdict] = []
        """The places that are wrong, the worst first."""

    def verdict(self, compiled: CallResults, noisy_calls: int = _NOISY_CALLS) -> ResultVerdict:
        """Judge a compiled call's results; make at most `noisy_calls` randomly rounded eager calls."""
        # Most calls agree, and then nothing else has to run.
        apart = disagreeing(self._eager.results, compiled)
        if not apart:
            return AGREED
        reference = self._reference()
        verdict = self._by_leaf(apart, reference)
        # One call at a time, and only while the verdict is still wrong: each takes as long as several plain calls.
        for seed in range(noisy_calls):
            if verdict.judgement is not Judgement.WRONG or not self._add_noisy(seed):
                break
            verdict = self._by_leaf(apart, reference)
        return replace(verdict, no_reference=self.refused)

    def _by_leaf(self, apart: list[Leaf], reference: CallResults | None) -> ResultVerdict:
        """Judge each place; the worst of them decides."""
        verdicts = [self._leaf(leaf, reference) for leaf in apart]
        wrong = (each for each in verdicts if each.judgement is Judgement.WRONG)
        self.wrong = sorted(wrong, key=_badness, reverse=True)
        return max(verdicts, key=_badness)

    def _leaf(self, leaf: Leaf, reference: CallResults | None) -> ResultVerdict:
        noisy = [value_at(each, leaf.path) for each in self._noisy]
        coarsest = self._watched.coarsest or FLOAT64
        if reference is not None:
            truth = value_at(reference, leaf.path)
            of_leaf = judged(leaf.eager, leaf.compiled, truth, noisy, self._scale(leaf, reference), coarsest)
            # A reference that overflows decides nothing, but tolerances still can.
            if of_leaf.why != NO_NUMBERS:
                return _verdict(of_leaf, leaf, Rule.REFERENCE)
        scale = max((magnitude(each) for each in self._group(leaf, self._eager.results)), default=0.0)
        if within_tolerances(leaf, coarsest, built=self._built, scale=scale):
            return _verdict(Judged(Judgement.FINE), leaf, Rule.TOLERANCE)
        # Eager in place of the reference: the randomly rounded calls may still show a near tie.
        of_leaf = judged(leaf.eager, leaf.compiled, leaf.eager, noisy, self._scale(leaf, self._eager.results), coarsest)
        # Errors from eager itself are no errors from the truth, so no report must show them as such.
        return _verdict(replace(of_leaf, eager_error=None, compiled_error=None), leaf, Rule.TOLERANCE)

    def _scale(self, leaf: Leaf, results: CallResults) -> float:
        return max((rms(wide(each)) for each in self._group(leaf, results)), default=0.0)

    def _group(self, leaf: Leaf, results: CallResults) -> list[Any]:
        """List all gradients if the leaf is a gradient, because a gradient near zero is judged by the scale of all."""
        if leaf.group != "gradients":
            return []
        return [each for each in results.gradients if each is not None and each.numel()]

    def _reference(self) -> CallResults | None:
        self.refused = self._why_none()
        if self.refused:
            return None
        arithmetic = Float64()
        try:
            run = self._run(arithmetic)
        except (EagerError, TargetError) as error:
            self.refused = arithmetic.refused or f"the call fails in float64 ({_first_line(error.__cause__ or error)})"
            return None
        # A reference that takes another branch computes something else.
        if run is None or arithmetic.read != self._watched.read:
            self.refused = "Python reads different values in float64, so the call takes another path"
            return None
        return run.results

    def _why_none(self) -> str:
        if self._watched.coarsest is None:
            return "nothing in the call is rounded"
        if self._watched.coarsest is FLOAT64:
            return "the call computes in float64 already"
        if not self._room:
            return "there is no memory for a copy of the model in float64"
        if not self._budget.allows(self._eager.seconds):
            return f"the call takes {self._eager.seconds:.3g} s in eager, too long for extra calls"
        return ""

    def _add_noisy(self, seed: int) -> bool:
        """Make another randomly rounded eager call; return False if there is no time, or if the call fails."""

        if not self._budget.allows(self._eager.seconds):
            return False
        try:
            run = self._run(Noisy(seed))
        # A rounding may send the program into an error that plain eager does not meet.
        except (EagerError, TargetError):
            return False
        if run is not None:
            self._noisy.append(run.results)
        return run is not None


def _verdict(judged: Judged, leaf: Leaf, rule: Rule) -> ResultVerdict:
    why = ""
    if judged.why:
        why = f"{judged.why} ({leaf.name})"
    return ResultVerdict(
        judged.judgement,
        rule,
        judged.eager_error,
        judged.compiled_error,
        described_difference(leaf),
        why,
        path=leaf.path,
    )


def _badness(verdict: ResultVerdict) -> tuple[int, float]:
    order = (Judgement.FINE, Judgement.UNDECIDED, Judgement.WRONG)
    error = verdict.compiled_error or 0.0
    # First by outcome, because an undecided place with a large error must not hide a wrong one.
    return order.index(verdict.judgement), error / verdict.eager_error if verdict.eager_error else error


def _first_line(error: BaseException) -> str:
    return telling_line(f"{type(error).__name__}: {error}")[:300]
