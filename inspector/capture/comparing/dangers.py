"""Find silent dangers: compiled calls whose results differ from eager, and the unguarded state that causes this.

Each compiled call is compared with an eager call of a copy, made just before from the same state. If they differ,
`danger_search` makes more eager calls to find the cause. Graphs that are not built run eagerly, bit for bit.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct, structs

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.comparing.compare_results import disagreeing, is_compared
from ctrace.inspector.capture.comparing.danger_search import DangerSearch, SearchOutcome, Suspected
from ctrace.inspector.capture.comparing.eager import Eager, EagerError, EagerRun
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.verdicts import AGREED, EagerBudget, ResultVerdict
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.op_counts import OpCounter, OpCounts
from ctrace.inspector.capture.isolation.random_states import RandomStates
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.capture.state.containers import Content
from ctrace.inspector.capture.state.state_copies import copied
from ctrace.inspector.capture.state.world import Facts, World, look, look_into
from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.events.run_events import DangersWithdrawn
from ctrace.inspector.facts.scenario_facts import Rule

_NO_CODE = "no compiled code ran in this call, so that a difference is the model's own"
_NOTHING = "the result has no values to compare: the model returns an iterator, a function or another such object"
_FAILED = "ctrace failed to compare it"


class Before(Struct, frozen=True):
    """The state before a compiled call: the world, the arguments and the eager result."""

    scenario: str
    index: int
    call: Call
    own_call: Call
    """The arguments that the compiled call gets."""
    inputs: World | None
    """Their state; None: unknown, as the world's is."""
    way: Way
    world: World | None
    random: RandomStates
    eager: EagerRun | None
    runs: int
    """How often graphs had run."""
    why_no_eager: str = ""
    """Why there is no eager run; empty if there is one."""

    @property
    def counts(self) -> OpCounts | None:
        """Ops of the eager call, if they were counted."""
        return None if self.eager is None else self.eager.counts


class Dangers:
    """Compares compiled calls with eager ones."""

    def __init__(self, model: Any, eager: Eager, recorder: Recorder, ops: OpCounter, *, built: bool) -> None:
        self._model = model
        self._eager = eager
        self._recorder = recorder
        self._ops = ops
        self._built = built
        self._worlds: list[Facts] = []
        self._compilers: Content = {}
        self._compared: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._verdicts: dict[str, ResultVerdict] = {}
        self._failed = ""
        """Why the comparison of a call failed; empty if none did."""
        self._budget = EagerBudget()

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
        # The checkpoint comes before the eager call, which may change what it reads.
        world, inputs = self._look(call)
        facts = world.facts() if world is not None else {}
        if not self._worlds or self._worlds[-1] != facts:
            self._worlds.append(facts)
        try:
            run = self._eager.run(call, way, world or World(), counting)
            arguments = copied(call) if run is not None else call
        except EagerError:
            # A later call that raises is the compiled call's to report, as a program would see it.
            if not index:
                raise
            run, arguments, why = None, call, "the model raises in eager"  # the compiled call reports the failure
        else:
            why = "" if run is not None else self._eager.why_not
        # Taken after the eager call, which restores them: the compiled call starts from the same state.
        random = RandomStates()
        return Before(
            scenario=scenario,
            index=index,
            call=arguments,
            own_call=call,
            inputs=inputs,
            way=way,
            world=world,
            random=random,
            eager=run,
            runs=self._ops.runs,
            why_no_eager=why,
        )

    def _look(self, call: Call) -> tuple[World | None, World | None]:
        with self._recorder.watching("the state that the model reads"):
            return look(self._model), look_into(args=call.args, kwargs=call.kwargs)
        return None, None

    def after(self, before: Before, compiled: CallResults) -> None:
        """Compare the compiled call with the eager one; record a danger if they differ."""
        if before.eager is None:
            self.skip(before.scenario, before.why_no_eager)
        elif before.world is None or before.inputs is None:
            self.skip(before.scenario, f"{_FAILED}: the state that the model reads is not known")
        elif before.eager.random and self._built:
            self.skip(before.scenario, "built kernels draw other random numbers than eager")
        elif unknown := self._recorder.doubt:
            self.skip(before.scenario, unknown)
        else:
            with self._recorder.watching("the comparison with eager"):
                # Torch sets switches while it compiles, such as the recursion limit (2.11 to 2.13,
                # _inductor/compile_fx.py). The eager call did not set them.
                set_by_eager = before.eager.traces.switched
                switched = {name: now for name, now in before.world.switched().items() if name not in set_by_eager}
                self._compilers |= switched
                outcome = self._outcome(before, before.eager, before.world, before.inputs, compiled, switched)
                self._conclude(before, outcome)

    def _outcome(
        self,
        before: Before,
        eager: EagerRun,
        world: World,
        inputs: World,
        compiled: CallResults,
        switched: Content,
    ) -> SearchOutcome:
        """Compare, and search for the cause of a difference; a failure of ctrace is a problem, and no finding."""
        try:
            if not disagreeing(eager.results, compiled):
                return SearchOutcome() if is_compared(compiled) else SearchOutcome(not_compared=_NOTHING)
            # Dynamo skipped everything: two calls of Python differ by themselves.
            if self._ops.runs == before.runs and not self._ops.has_code_without_graph:
                return SearchOutcome(not_compared=_NO_CODE)
            return self._searched(
                Suspected(
                    call=before.call,
                    own_call=before.own_call,
                    inputs=inputs,
                    way=before.way,
                    world=world,
                    random=before.random,
                    worlds=self._worlds[:-1],
                    switched=switched,
                    compilers=self._compilers,
                    eager=eager,
                    compiled=compiled,
                )
            )
        except Exception as error:
            why = telling_line(kind_and_message(error))
            self._recorder.problem(f"{_FAILED} with eager, so that only proven differences are shown: {why}")
            self._recorder.add(DangersWithdrawn())
            self._failed = f"{_FAILED} ({why})"
            return SearchOutcome(not_compared=self._failed)

    def _searched(self, suspected: Suspected) -> SearchOutcome:
        """Search for the cause of a difference, then restore the world to its state after the compiled call."""
        # The search restores the state of the call again and again; the program goes on from the state after it.
        after = look(self._model)
        inputs = look_into(args=suspected.own_call.args, kwargs=suspected.own_call.kwargs)
        with unnoticed():
            try:
                return DangerSearch(suspected, self._eager, self._budget, built=self._built).outcome()
            finally:
                after.restore()
                inputs.restore()

    def _conclude(self, before: Before, outcome: SearchOutcome) -> None:
        """Record what a comparison found; what failed in one call cannot rule out other causes in another."""
        is_proven = any(each.proven for each in outcome.dangers)
        withdrawn = self._failed if outcome.dangers and not is_proven else ""
        if why := outcome.not_compared or withdrawn:
            self.skip(before.scenario, why)
            return
        self._compared[before.scenario] += 1
        if not is_proven:
            self._agreed(before.scenario, outcome.verdict)
        for danger in outcome.dangers:
            self._recorder.add(structs.replace(danger, scenario=before.scenario, call=before.index))

    def skip(self, scenario: str, why: str) -> None:
        """Note why a call of a scenario is not compared; the first reason counts."""
        self._reasons.setdefault(scenario, why)

    def _agreed(self, scenario: str, verdict: ResultVerdict) -> None:
        """Keep, for each scenario, the verdict on the call that was hardest to decide."""
        known = self._verdicts.get(scenario, AGREED)
        self._verdicts[scenario] = max(known, verdict, key=_weight)

    def compared(self, scenario: str) -> int:
        """Return how many calls of a scenario were compared."""
        return self._compared[scenario]

    def not_compared(self, scenario: str) -> str:
        """Return why the other calls were not compared; empty: all were."""
        return self._reasons.get(scenario, "")

    def verdict(self, scenario: str) -> ResultVerdict | None:
        """Return the verdict on the call that was hardest to decide; None: no call was compared."""
        return self._verdicts.get(scenario)


def _weight(verdict: ResultVerdict) -> tuple[bool, int, float]:
    rules = list(Rule)
    return verdict.judgement is Judgement.WRONG, rules.index(verdict.rule), verdict.compiled_error or 0.0
