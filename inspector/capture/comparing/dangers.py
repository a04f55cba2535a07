"""Find silent dangers: compiled calls whose results differ from eager, and the unguarded state that causes this.

Each compiled call is compared with an eager call of a copy, made just before from the same state. If they differ,
further eager calls answer three questions: is the model deterministic, does rounding explain the difference
(`verdicts`), and does eager reproduce the compiled result when a change of state since an earlier call is undone?
Only a cause that such an experiment proves is reported. Graphs that are not built run eagerly, bit for bit: there
rounding could hide a stale value, so the experiments come first.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import FunctionType
from typing import Any, assert_never

from msgspec import Struct

from ctrace.inspector.capture.calls.calling import Results
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.comparing.arithmetic import Watched
from ctrace.inspector.capture.comparing.eager import Eager, EagerError, EagerRun
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.precision import FLOAT32
from ctrace.inspector.capture.comparing.results import difference, disagreeing, taken, within_tolerances
from ctrace.inspector.capture.comparing.suspects import Experiment, culprits
from ctrace.inspector.capture.comparing.verdicts import AGREED, Budget, Court, Verdict
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.op_counts import OpCounts
from ctrace.inspector.capture.state.copies import RandomStates, copied
from ctrace.inspector.capture.state.reads import place_of
from ctrace.inspector.capture.state.world import Change, Facts, World, look
from ctrace.inspector.capture.virtual.stand_ins import why_not_real
from ctrace.inspector.capture.virtual.triton_interpreter import why_unknown
from ctrace.inspector.errors import TargetError
from ctrace.inspector.model.comparison import Rule

_LONG = 80


class Before(Struct, frozen=True):
    """The state before a compiled call: the world, the arguments and the eager result."""

    scenario: str
    index: int
    call: Call
    way: Way
    world: World
    random: RandomStates
    eager: EagerRun | None

    @property
    def counts(self) -> OpCounts | None:
        """Ops of the eager call, if they were counted."""
        return None if self.eager is None else self.eager.counts


class Dangers:
    """Compares compiled calls with eager ones."""

    def __init__(self, model: Any, eager: Eager, recorder: Recorder, *, built: bool) -> None:
        self._model = model
        self._eager = eager
        self._recorder = recorder
        self._built = built
        self._worlds: list[Facts] = []
        self._compared: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._budget = Budget()

    def before(
        self,
        scenario: str,
        index: int,
        call: Call,
        way: Way,
        counting: Callable[[], AbstractContextManager[OpCounts | None]],
    ) -> Before:
        """Take a checkpoint of the world, and call the model in eager.

        Raises:
        TargetError: no output requires a gradient.
            EagerError: the first call of the scenario raised.
        """
        world = self._look()
        facts = world.facts()
        if not self._worlds or self._worlds[-1] != facts:
            self._worlds.append(facts)
        try:
            run = self._eager.run(call, way, world, counting)
            arguments = copied(call) if run is not None else call
        except EagerError:
            if not index:
                raise
            run, arguments = None, call  # the compiled call reports the failure
        return Before(scenario, index, arguments, way, world, RandomStates(), run)

    def _look(self) -> World:
        with self._recorder.watching("the state that the model reads"):
            return look(self._model)
        return World()

    def after(self, before: Before, compiled: Results) -> None:
        """Compare the compiled call with the eager one; record a danger if they differ."""
        if before.eager is None:
            self.skip(before.scenario, "the model cannot be called in eager")
        elif before.eager.random and self._built:
            self.skip(before.scenario, "built kernels draw other random numbers than eager")
        elif unknown := why_unknown() or why_not_real(self._recorder):
            self.skip(before.scenario, unknown)
        else:
            with self._recorder.watching("the comparison with eager"):
                self._compared[before.scenario] += 1
                if disagreeing(before.eager.results, compiled):
                    _Search(self, before, before.eager, compiled).report()
                else:
                    self._agreed(before, AGREED)

    def skip(self, scenario: str, why: str) -> None:
        """Note why a call of a scenario is not compared; the first reason counts."""
        self._reasons.setdefault(scenario, why)

    def _agreed(self, before: Before, verdict: Verdict) -> None:
        """Keep, for each scenario, the verdict on the call that was hardest to decide."""
        known = self._verdicts.get(before.scenario, AGREED)
        self._verdicts[before.scenario] = max(known, verdict, key=_weight)

    def compared(self, scenario: str) -> dict[str, Any]:
        """Return how many calls of a scenario were compared, by which rule, and why the others were not."""
        verdict = self._verdicts.get(scenario)
        return {
            "compared": self._compared[scenario],
            "not_compared": self._reasons.get(scenario, ""),
            "rule": verdict and verdict.rule,
            "eager_error": verdict and verdict.eager_error,
            "compiled_error": verdict and verdict.compiled_error,
            "no_reference": verdict.no_reference if verdict else "",
        }


def _weight(verdict: Verdict) -> tuple[bool, int, float]:
    rules = list(Rule)
    return verdict.judgement is Judgement.WRONG, rules.index(verdict.rule), verdict.compiled_error or 0.0


class _Search:
    """Searches for the cause of one compiled call's difference."""

    def __init__(self, dangers: Dangers, before: Before, eager: EagerRun, compiled: Results) -> None:
        self._dangers = dangers
        self._before = before
        self._expected = eager
        self._compiled = taken(compiled)
        self._verdict = AGREED

    def report(self) -> None:
        """Record the cause, or that none was found; then restore the world to its state after the call."""
        after = look(self._dangers._model)
        random = RandomStates()
        try:
            self._find()
        finally:
            after.restore()
            random.restore()

    def _find(self) -> None:
        watched = Watched()
        repeated = self._run([], watched) if self._before.world.restore() else None
        if repeated is None or not _repeats(self._expected.results, repeated.results):
            self._not_compared("the model gives different results for the same inputs in eager")
        elif self._dangers._built or not self._blamed(self._gives_the_same):
            self._judge(watched)

    def _judge(self, watched: Watched) -> None:
        """Decide whether the result is wrong, and if so, find the cause."""
        if self._expected.random or watched.generators:
            self._not_compared("the call draws random numbers, and compiled code may draw others")
            return
        verdict = self._verdict = self._court([], self._expected, watched).verdict(self._compiled)
        match verdict.judgement:
            case Judgement.FINE:
                self._dangers._agreed(self._before, verdict)
            case Judgement.UNDECIDED:
                self._not_compared(verdict.why)
            case Judgement.WRONG:
                self._dangers._agreed(self._before, verdict)
                if not (self._dangers._built and self._blamed(self._explains)):
                    self._recorded(kind="unexplained", subject="", proven=False)
            case unknown:
                assert_never(unknown)

    def _not_compared(self, why: str) -> None:
        self._dangers._compared[self._before.scenario] -= 1
        self._dangers.skip(self._before.scenario, why)

    def _blamed(self, experiment: Experiment) -> bool:
        """Record each change that experiments prove to be a cause."""
        found = culprits(self._before.world, self._dangers._worlds[:-1], experiment)
        for change in found:
            self._record(change)
        return bool(found)

    def _gives_the_same(self, changes: list[Change]) -> bool:
        run = self._run(changes)
        return run is not None and not disagreeing(run.results, self._compiled)

    def _explains(self, changes: list[Change]) -> bool:
        watched = Watched()
        run = self._run(changes, watched)
        if run is None:
            return False
        verdict = self._court(changes, run, watched).verdict(self._compiled, noisy_calls=1)
        return verdict.judgement is Judgement.FINE

    def _court(self, changes: list[Change], eager: EagerRun, watched: Watched) -> Court:
        dangers = self._dangers
        run = partial(self._run_or_raise, changes)
        room = dangers._eager.has_room(self._before.call)
        return Court(eager, watched, run, dangers._budget, built=dangers._built, room=room)

    def _run(self, changes: list[Change], arithmetic: Watched | None = None) -> EagerRun | None:
        try:
            return self._run_or_raise(changes, arithmetic)
        except (EagerError, TargetError):
            return None

    def _run_or_raise(self, changes: list[Change], arithmetic: Watched | None = None) -> EagerRun | None:
        """Call the model in eager in the world of the call, with some changes undone."""
        before = self._before
        before.random.restore()
        try:
            for change in changes:
                change.undo()
            return self._dangers._eager.run(before.call, before.way, before.world, arithmetic=arithmetic)
        finally:
            before.world.restore()

    def _record(self, change: Change) -> None:
        where = place_of(change, self._before.world)
        self._recorded(
            kind=change.container.kind,
            subject=str(change.key) if change.container.kind == "environment" else change.path,
            was=_described(change.was),
            now=_described(change.now),
            file=where and where[0],
            line=where and where[1],
            proven=True,
        )

    def _recorded(self, **about: Any) -> None:
        verdict = self._verdict
        self._dangers._recorder.record(
            "danger",
            {
                "scenario": self._before.scenario,
                "call": self._before.index,
                "difference": verdict.difference or difference(self._expected.results, self._compiled),
                "rule": Rule.EXPERIMENT if about["proven"] else verdict.rule,
                "eager_error": verdict.eager_error,
                "compiled_error": verdict.compiled_error,
                "no_reference": verdict.no_reference,
                **about,
            },
        )


def _repeats(one: Results, other: Results) -> bool:
    """Whether two eager calls agree, except for differences caused by the order in which a GPU adds."""
    apart = disagreeing(one, other)
    return all(within_tolerances(leaf, FLOAT32, built=True) for leaf in apart)


def _described(value: Any) -> str:
    if isinstance(value, FunctionType):
        return f"{value.__qualname__}, line {value.__code__.co_firstlineno}"
    return repr(value)[:_LONG]
