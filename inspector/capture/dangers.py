"""Silent dangers: a compiled call that gives what the same call in eager does not, and which unguarded state is why.

Each compiled call is held against an eager call of a copy, made right before from the same state. Where they differ,
eager calls find out whether the model repeats itself at all, and then which change of the world since an earlier call,
undone, makes eager give what compiled code gave. Only what such an experiment proves is named.
"""

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ctrace.inspector.capture.calling import Results
from ctrace.inspector.capture.copies import RandomStates, copied
from ctrace.inspector.capture.eager import Eager, EagerError, EagerRun
from ctrace.inspector.capture.ops import OpCounts
from ctrace.inspector.capture.reads import place_of
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.results import difference
from ctrace.inspector.capture.suspects import culprits
from ctrace.inspector.capture.virtual.interpreter import why_unknown
from ctrace.inspector.capture.ways import Call, Way
from ctrace.inspector.capture.world import Change, Facts, World, look
from ctrace.inspector.errors import TargetError

_LONG = 80


@dataclass(frozen=True, slots=True)
class Before:
    """A call that is about to be made compiled: the world and the arguments, and what eager gives."""

    scenario: str
    index: int
    call: Call
    way: Way
    world: World
    random: RandomStates
    eager: EagerRun | None

    @property
    def counts(self) -> OpCounts | None:
        """Ops of the eager call, if it was counted."""
        return None if self.eager is None else self.eager.counts


class Dangers:
    """Holds compiled calls against eager ones."""

    def __init__(self, model: Any, eager: Eager, recorder: Recorder, *, built: bool) -> None:
        self._model = model
        self._eager = eager
        self._recorder = recorder
        self._built = built
        self._worlds: list[Facts] = []
        self._compared: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}

    def before(
        self, scenario: str, index: int, call: Call, way: Way, counting: AbstractContextManager[OpCounts | None] | None
    ) -> Before:
        """Look at the world, and call the model in eager.

        Raises:
            TargetError: there is nothing to run backward.
            EagerError: the first call of the scenario raised.
        """
        world = self._look()
        facts = world.facts()
        if not self._worlds or self._worlds[-1] != facts:
            self._worlds.append(facts)
        try:
            run = self._eager.run(call, way, world, counting)
            given = copied(call) if run is not None else call
        except EagerError:
            if not index:
                raise
            run, given = None, call  # the compiled call will show what is wrong
        return Before(scenario, index, given, way, world, RandomStates(), run)

    def _look(self) -> World:
        with self._recorder.watching("the state that the model reads"):
            return look(self._model)
        return World()

    def after(self, before: Before, compiled: Results) -> None:
        """Hold the compiled call against the eager one; record a danger where they differ."""
        if before.eager is None:
            self._skip(before, "the model cannot be called in eager")
        elif before.eager.random and self._built:
            self._skip(before, "built kernels draw other random numbers than eager")
        elif unknown := why_unknown():
            self._skip(before, unknown)
        else:
            with self._recorder.watching("the comparison with eager"):
                what = difference(before.eager.results, compiled, built=self._built)
                self._compared[before.scenario] += 1
                if what is not None:
                    _Search(self, before, before.eager.results, compiled, what).report()

    def _skip(self, before: Before, why: str) -> None:
        self._reasons.setdefault(before.scenario, why)

    def compared(self, scenario: str) -> dict[str, Any]:
        """Say how many calls of a scenario were compared, and why others were not."""
        return {"compared": self._compared[scenario], "not_compared": self._reasons.get(scenario, "")}


class _Search:
    """Looks for what makes one compiled call differ."""

    def __init__(self, dangers: Dangers, before: Before, eager: Results, compiled: Results, what: str) -> None:
        self._dangers = dangers
        self._before = before
        self._expected = eager
        self._compiled = compiled
        self._what = what

    def report(self) -> None:
        """Record what is to blame, or that nothing was found; the world is then as the call left it."""
        after = look(self._dangers._model)
        random = RandomStates()
        try:
            self._find()
        finally:
            after.restore()
            random.restore()

    def _find(self) -> None:
        if not self._before.world.restore() or not self._is_repeatable():
            why = "the model gives different results for the same inputs in eager"
            self._dangers._compared[self._before.scenario] -= 1
            self._dangers._skip(self._before, why)
            return
        found = culprits(self._before.world, self._dangers._worlds[:-1], self._explains)
        for change in found:
            self._record(change)
        if not found:
            self._recorded(kind="unexplained", subject="", proven=False)

    def _is_repeatable(self) -> bool:
        again = self._run([])
        return again is not None and not self._differ(self._expected, again)

    def _explains(self, changes: list[Change]) -> bool:
        results = self._run(changes)
        return results is not None and not self._differ(results, self._compiled)

    def _differ(self, one: Results, other: Results) -> bool:
        return difference(one, other, built=self._dangers._built) is not None

    def _run(self, changes: list[Change]) -> Results | None:
        """Call the model in eager in the world of the call, but for some changes undone."""
        before = self._before
        before.random.restore()
        try:
            for change in changes:
                change.undo()
            run = self._dangers._eager.run(before.call, before.way, before.world)
        except (EagerError, TargetError):
            return None
        finally:
            before.world.restore()
        return None if run is None else run.results

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
        call = {"scenario": self._before.scenario, "call": self._before.index, "difference": self._what}
        self._dangers._recorder.record("danger", {**call, **about})


def _described(value: Any) -> str:
    if isinstance(value, FunctionType):
        return f"{value.__qualname__}, line {value.__code__.co_firstlineno}"
    return repr(value)[:_LONG]
