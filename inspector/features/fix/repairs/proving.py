"""Prove a change: eager stays the same, compiled equals eager, the finding is gone, and no finding is new.

What "proved" claims is small and exact: of all calls that were made, none tells the changed program from the unchanged
one, and the run with the change is better. So the work is to make the calls that could tell them apart, and to say
what is left open as a question or as an obligation that is not closed.

Terms:

- A **trial** is a run with a change that exists in memory only: new texts of files, or settings. No file on disk is
  touched, and each run is a process of its own, because a change may break the process.
- An **observation** (`facts/trial.py:Observed`) is what calls of a target return, change, print, raise and draw, as
  digests that are equal if and only if the values are, bit for bit. Two observations are compared as data
  (`comparing.py`), so no tensor leaves its process.
- A **probe** is a call with odd inputs or on an odd object, derived from a scenario of the user: other values, dtypes,
  sizes and kinds, a frozen or saved model, another value of an option. The child process makes all that fit into
  `PROBE_SECONDS`, and names them; later observations repeat those by name.
- A **condition** is a test in the unchanged source that the change does away with, such as `x.sum() > 0`. A proof
  counts only if calls reached both of its sides.
- An **obligation** (`obligations.py`) is a way in which two programs can differ. It is closed by reading, by
  calls, or by the author's answer to a question.

Steps of `Prover.attempt`, cheapest first; the first that fails ends the proof:

1. `why_unstable`, once for a target: observe it twice. If two runs with the same seeds differ, no comparison means
   anything, and nothing is proved.
2. Capture the changed target, and compare its findings with those of the unchanged one (`_graph_checks`): the finding
   is gone, nothing is new, no less is compiled. Keys of findings (`_keys`) have no line numbers, which the change
   moves. A setting that leaves recompilations may still save some in many calls (`_later`).
3. Observe the changed target with the same probes, and compare (`_behavior`). A difference for inputs that only the
   author can rule out, such as integers where the scenarios have floats (`_UNUSUAL`), becomes a question; any other
   refutes the change. A time that grows (`_SLOWER`) becomes a question, too.
4. If the change computes in another order, results may differ by rounding: the unchanged target runs again, in its own
   precision, in float64 and with random rounding, and the changed results may be no further from those in float64
   than rounding explains (`_within_rounding`).
5. Observe the changed target compiled, with the few probes of `_compiled_probes`, and compare with its eager calls.
   What the unchanged target shows as well is torch's, not the change's (`_known`).
6. `through_backend`: Inductor compiles the result, alone for the combination of repairs, because it takes longest.

For example, `if x.sum() > 0: x = x * 2` becomes `x = torch.where(x.sum() > 0, x * 2, x)`. The break is gone (2). With
"negated", the other side runs, and both programs return the same (3). With `x.sqrt()` in place of the product they do
not: of the side that is not taken, torch.where passes on gradients that are NaN. That refutes the change.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts
from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.diagnosis.root_causes import root_causes
from ctrace.inspector.facts.diagnosis import Effect, Finding, RootCause
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import (
    ATTRIBUTE,
    BUFFERS_IN_FLOAT64,
    MOST_ALONE,
    NEEDED,
    NO_ELEMENTS,
    ON,
    OTHERS_IN_FLOAT64,
    REDRAWN,
    WITHOUT_KEY,
    Condition,
    Mined,
    NewText,
    Observed,
    ProofRequest,
    Trial,
)
from ctrace.inspector.features.fix.repairs import obligations
from ctrace.inspector.features.fix.repairs.comparing import (
    WRITTEN,
    CallDifference,
    checks_of,
    differences,
    ended_check,
    kept_checks,
    sides_check,
)
from ctrace.inspector.features.fix.repairs.repair_result import How, Obligation, ProofCheck, ProofOutcome
from ctrace.inspector.features.fix.repairs.trial_runs import FailedTrialError, Runner
from ctrace.inspector.findings.graphs.attention_view import AttentionState, state_of
from ctrace.inspector.runs.trial_runner import CALLS

ATTENTION = "attention"
"""Findings that only Inductor shows."""

Key = tuple[Any, ...]
_FEW_PROBES = ("negated", "zeros", "positive", "negative", "integers 0", "inverted")
"""Probes that are also compiled, besides one for each side of a condition."""
_OF_VALUES = (
    *("large", "NaN", "small", "ones", "one NaN", "one value", "first row 0", "shifted up", "shifted down", "infinity"),
    *("integers reversed", "integers largest", "integers 1", "integers negated", "integers plus 5"),
    *("all false", "all true", "first true", "last true", "random 1", "random 2"),
)
"""Probes that only change values: compiled, they run the graphs of the probe before them, as a user's calls do."""
_MOST_RAISING = 3
"""Probes that raise and are also compiled: their state is compared."""
_SAME_COVERAGE = 0.5
"""Percentage points that the share of compiled operations may fall: a removed operation shifts it a little."""
_SLOWER = 1.5
"""Eager calls that take more times as long are left to the author."""
_NOTICED, _MUCH_SLOWER = 1e-4, 3.0
"""Up to `_MUCH_SLOWER` times, only if a call takes this many seconds more: calls of microseconds, timed in one process
after the other, vary by half with what else runs on the core."""
_MASKS = "booleans as "
_ALL = ("", " all true", " all false")
_AS_NUMBERS = "Are these inputs always tensors? With a number for a tensor of one, {}"
_AS_TENSORS = "Are these numbers never tensors? With tensors, {}"
_AS_FLOATS = "Are these numbers always of type int? With floats of the same values, {}"
_INFINITE = "Are these numbers always finite? With infinity, {}"
_ALONE = range(1, MOST_ALONE + 1)
_EMPTIED = tuple(f"tensor {at} alone empty" for at in _ALONE)
_KEYLESS = tuple(f"{WITHOUT_KEY}{at}" for at in _ALONE)
_BROADCAST_FORMS = ("of one row", "of one column", "for each row")
_BROADCAST = tuple(f"tensor {at} alone {form}" for at in _ALONE for form in _BROADCAST_FORMS)
_OF_PRECISION = "model in "
"""What the name of a call begins with whose model has another precision."""
_ONE_KIND = "Do these inputs always have the same dtype as each other? With tensor {at} alone in {kind}, {{}}"
_EMPTY = "Do batches always have elements? With an empty one, {}"
_UNUSUAL = {
    "integer inputs": "Are these inputs always floats? With integers, {}",
    "computed inputs": "Has no other module computed these inputs? With inputs that have a gradient to pass on, {}",
    "expanded": "Does each element of the inputs always have memory of its own? For an expanded tensor, {}",
    "overlapping": "Does each element of the inputs always have memory of its own? For overlapping rows, {}",
    "another dictionary": "Are dictionaries that are passed always plain ones? With another class, {}",
    "dictionary subclass": "Are dictionaries that are passed always plain ones? With a class of your own, {}",
    "floats as booleans": "Are these inputs always floats? With booleans, {}",
    "floats as uint8": "Are these inputs always floats? With uint8, {}",
    "floats as complex": "Are these inputs always real? With complex ones, {}",
    "integers as booleans": "Are these integers always of this dtype? With booleans, {}",
    "integers as uint8": "Are these integers always of this dtype? With uint8, {}",
    "integers as int32": "Are these integers always of this dtype? With int32, {}",
    **{f"{_MASKS}uint8{all_}": "Are these masks always booleans? With uint8, {}" for all_ in _ALL},
    **{f"{_MASKS}int64{all_}": "Are these masks always booleans? With int64, {}" for all_ in _ALL},
    "tensors as numbers": _AS_NUMBERS,
    "numbers as tensors": _AS_TENSORS,
    **{f"numbers as rows{beside}": _AS_TENSORS for beside in ("", " beside small inputs", " beside large inputs")},
    "integers as floats": _AS_FLOATS,
    "numbers infinite": _INFINITE,
    **{f"tensor {at} alone as number": _AS_NUMBERS for at in _ALONE},
    **{f"number {at} alone as tensor": _AS_TENSORS for at in _ALONE},
    **{f"number {at} alone as float": _AS_FLOATS for at in _ALONE},
    **{f"number {at} alone infinite": _INFINITE for at in _ALONE},
    **{f"tensor {at} alone sparse": "Are these inputs always dense? With a sparse one, {}" for at in _ALONE},
    **dict.fromkeys(_EMPTIED, "Does each tensor that callers pass have elements? With an empty one, {}"),
    **dict.fromkeys(_BROADCAST, "Do callers never pass a tensor that is broadcast beside others? With one, {}"),
    **dict.fromkeys(_KEYLESS, "Do dictionaries that callers pass always have the same keys? Without one, {}"),
    **{f"tensor {at} alone in float64": _ONE_KIND.format(at=at, kind="float64") for at in _ALONE},
    **{f"tensor {at} alone as integers": _ONE_KIND.format(at=at, kind="integers") for at in _ALONE},
    **{f"tensor {at} alone as booleans": _ONE_KIND.format(at=at, kind="booleans") for at in _ALONE},
    **{
        f"tensor {at} alone NaN": f"Are these inputs always without NaN? With tensor {at} alone NaN, {{}}"
        for at in _ALONE
    },
    **{
        f"tensor {at} alone None": f"Do callers always pass these tensors? With None for tensor {at}, {{}}"
        for at in _ALONE
    },
    # Without the other side of a condition, a difference for an empty batch is one that calls of a loader show.
    **{f"{name}{ON}": _EMPTY for name in ("empty batch", "empty rows")},
    BUFFERS_IN_FLOAT64: "Do buffers always have the dtype of the parameters? With the buffers alone in float64, {}",
    OTHERS_IN_FLOAT64: "Do tensors that other objects hold always have this dtype? In float64, {}",
    NEEDED: "Are inputs and state never written to between a call and its backward pass? With such a write, {}",
    NO_ELEMENTS: "Do lists and dictionaries that callers pass always have elements? With empty ones, {}",
    "all of size 1": "Do inputs always have more than one element? With one element of each, {}",
    "no dimensions": "Do these inputs always have dimensions? With one element of each, without, {}",
    "one dimension less": "Do these inputs always have as many dimensions? With one less, {}",
    "one dimension more": "Do these inputs always have as many dimensions? With one more, {}",
    **{f"dimension {at} larger": f"Does dimension {at} always have this size? One larger, {{}}" for at in range(4)},
    **{f"dimension {at} of size 1": f"Does dimension {at} always have this size? Of size 1, {{}}" for at in range(4)},
}
"""Inputs that only the author can rule out, by probe, and the question; what differs follows."""
_SHOW_NOTHING = ("both_sides", "calls_ended", "within_rounding")
"""Checks that fail where calls show nothing about the change."""
_ALIKE = re.compile(r"0x[0-9a-f]+|\d+")
"""What differs between two messages about one failure: addresses, line numbers, seconds."""
INDUCTOR = "inductor_equal"
"""The check that compiling with Inductor works, and that its results are those of eager."""
PROBE_SECONDS = 180.0
"""Processor time for the odd inputs of one observation; a target that needs more proves nothing."""
_NOT_COMPILED = "not tried: eager calls differ"
_REFERENCES = 4
"""How often a call is made at most that is compared within rounding: as it is, in float64, and twice with random
rounding."""


def scene_of(session: Session) -> DiagnosisScene:
    """Return a run with its root causes."""
    return DiagnosisScene(session, root_causes(session))


def keys_of(session: Session) -> Counter[Key]:
    """Count the findings of a run, in a form that does not change when lines move."""
    return Counter([key for _, _, key in _keys(session)])


def new_keys(before: Session, after: Session) -> tuple[Counter[Key], Counter[Key]]:
    """Count the findings that only the second run has: at places that were fine before, and at those that broke before.

    One place may break for another reason once the first one is gone, which torch reports under another id.
    """
    found = keys_of(after) - keys_of(before)
    known = {_place(key) for key in keys_of(before)} - {None}
    renamed = Counter({key: number for key, number in found.items() if _place(key) in known})
    return found - renamed, renamed


def _place(key: Key) -> Key | None:
    """Return where a break or a skipped function is; None: any other finding, which has no such place."""
    match key:
        case ("break", _, file, source):
            return "break", file, source
        case ("skip", function, file, _):
            return "skip", function, file
    return None


def is_left(key: Key, renamed: Iterable[Key]) -> bool:
    """Whether the place of a finding is among those that still break."""
    return _place(key) is not None and any(_place(each) == _place(key) for each in renamed)


def keys_of_cause(cause: RootCause, session: Session) -> Counter[Key]:
    """Count the findings that a root cause stands for."""
    mine = {(each.what, each.index) for each in cause.symptoms}
    found = [key for what, index, key in _keys(session) if (what, index) in mine]
    # A recompilation may have several causes: a repair of one leaves the others.
    own = [key for key in found if key[0] != "recompile" or key[3] == str(cause.kind)]
    return Counter(own or found)


def _keys(session: Session) -> Iterator[tuple[Finding, int, Key]]:
    if session.failure is not None:
        # By its type alone: messages have addresses, sizes and line numbers, which the change may move.
        yield Finding.FAILURE, 0, ("failure", session.failure.type)
    for index, broken in enumerate(session.breaks):
        # Several lines of the user may lead to one place of a library: each is repaired where it is.
        for line in broken.user_lines:
            yield Finding.BREAK, index, ("break", broken.gb, line.at.file, " ".join(line.at.source.split()))
    for index, skip in enumerate(session.skips):
        yield Finding.SKIP, index, ("skip", skip.function, skip.file, skip.rule)
    for index, recompile in enumerate(session.recompiles):
        # A recompilation of which torch gives no reason counts as well, under an empty one.
        for kind, subject in [(str(each.kind), each.subject) for each in recompile.causes] or [("", "")]:
            yield Finding.RECOMPILE, index, ("recompile", recompile.function, recompile.file, kind, subject)
    for index, danger in enumerate(session.dangers):
        yield Finding.DANGER, index, ("danger", danger.kind, danger.subject)
    for index, attention in enumerate(session.attention):
        if state_of(attention) not in (AttentionState.FUSED, AttentionState.MATCHED):
            yield Finding.ATTENTION, index, (ATTENTION, str(state_of(attention)))


def words_of(key: Key) -> str:
    """Say what a finding is, in a few words."""
    match key:
        case ("break", _, _, source):
            return f"a graph break at `{source}`"
        case ("skip", function, *_):
            return f"{function} now runs eagerly"
        case ("recompile", function, _, _, subject):
            return f"{function} recompiles{f' for {subject}' if subject else ''}"
        case ("attention", *_):
            return "an attention that is not fused"
        case ("danger", _, subject):
            return f"a result that differs from eager{f' ({subject})' if subject else ''}"
    return " ".join(map(str, key))


class ChangeToProve(Struct, frozen=True):
    """A change to prove."""

    trial: Trial
    gone: Counter[Key]
    """Findings that must be gone; empty: counts must improve."""
    conditions: tuple[Condition, ...] = ()
    """Conditions in the unchanged files; calls must reach both sides of each."""
    changes_arithmetic: bool = False
    may_drop_output: bool = False
    """Whether compiled calls may print less if the author agrees."""
    keeps_eager: bool = False
    """Whether the change cannot affect eager, as an argument of torch.compile cannot."""
    drops_gradients: bool = False
    """Whether results lose their gradients, as the author agrees to; gradients are not compared then."""
    names: tuple[str, ...] = ()
    """The repairs that make it up."""
    runs_hooks: bool = False
    """Whether the changed files register code that runs later, such as hooks of tensors."""
    may_leave: bool = False
    """Whether it is enough that the counts improve, as for a setting: it changes no line of the program."""
    asks: tuple[tuple[str, str], ...] = ()
    """Questions that reading the change leaves open, with their obligations."""


class _Behavior(Struct, frozen=True):
    """What observing a change showed."""

    checks: tuple[ProofCheck, ...]
    obligations: tuple[Obligation, ...] = ()
    eager_slowdown: float | None = None
    questions: tuple[tuple[str, str], ...] = ()


class Attempt(Struct, frozen=True):
    """A proof, and the run with the change; None: the run failed."""

    outcome: ProofOutcome
    session: Session | None = None
    uncovered: tuple[Key, ...] = ()
    """Findings that only appear with the change."""


class Prover:
    """Proves changes of one target; observes the unchanged target once."""

    def __init__(
        self,
        runner: Runner,
        session: Session,
        *,
        inference: bool = False,
        mined: Mined | None = None,
        conditions: tuple[Condition, ...] = (),
    ) -> None:
        """Prove changes; one run watches `conditions`, those of all changes that are known."""
        self._runner = runner
        self._request = ProofRequest(
            "", gradients=not inference, seconds=PROBE_SECONDS, mined=mined or Mined(), timed=None
        )
        self._session = session
        self._inference = inference
        self._before: Observed | None = None
        self._conditions = conditions
        self._compiled: dict[tuple[str, ...], Observed] = {}
        self._many: Session | None = None
        self._failing: dict[bool, str] = {}
        """How the unchanged target fails, empty if it does not, without the backend and through it."""

    def why_unstable(self) -> str:
        """Observe the unchanged target twice; return how the two differ, empty if they do not.

        Raises:
            FailedTrialError: the target cannot be observed.
            InterruptedTrialError: Ctrl-C.
        """
        first = self._runner.observe(Trial(), replace(self._request, conditions=self._conditions))
        second = self._runner.observe(Trial(), replace(self._request, probes=first.probes, timed=()))
        found = differences(first, second)
        if found and self._conditions:
            # Evaluating a condition may change a call: each change watches its own conditions then.
            self._conditions = ()
            return self.why_unstable()
        self._before = first
        if found:
            return f"two eager runs with the same seeds differ with {found[0].entry}: {found[0].detail}"
        if first.left_out:
            return f"it cannot be observed: {first.left_out}"
        # Programs that only raise return nothing that could tell them apart.
        if all(each.raised for each in first.entries):
            return f"every eager call raises: {first.entries[0].raised}" if first.entries else "nothing was called"
        return ""

    def attempt(self, change: ChangeToProve, baseline: Session | None = None) -> Attempt:
        """Try a change; stop at the first part of the proof that fails.

        `baseline` is the run without the change, by default the run with the findings.

        Raises:
            InterruptedTrialError: Ctrl-C.
        """
        needs_backend = any(key[0] == ATTENTION for key in change.gone)
        try:
            after = self._runner.capture(change.trial, through_backend=needs_backend)
        except FailedTrialError as error:
            why = self._why_failed(str(error), through_backend=needs_backend)
            return Attempt(ProofOutcome((ProofCheck("runs", False, why),), obligations=obligations.not_tried(why)))
        before = baseline or self._session
        effect = Effect(counts(before), counts(after))
        checks = tuple(_graph_checks(before, after, change, effect))
        later = self._later(change) if change.may_leave and _only_left(checks, change) else None
        if later is not None:
            detail = f"{later[0]} recompilations in {CALLS} calls before, {later[1]} after"
            checks = tuple(replace(each, passed=True, detail=detail) if not each.passed else each for each in checks)
        new = tuple(new_keys(before, after)[0])
        found = _Behavior(())
        if all(each.passed for each in checks):
            try:
                found = self._behavior(change)
            except FailedTrialError as error:
                found = _Behavior((ProofCheck("runs", False, f"the changed target cannot be observed: {error}"),))
        # A run that raised stopped early: its counts are no measure.
        outcome = ProofOutcome((*checks, *found.checks), effect if before.failure is None else None, later=later)
        closed = found.obligations or obligations.not_tried(outcome.why)
        outcome = replace(outcome, obligations=closed, eager_slowdown=found.eager_slowdown, questions=found.questions)
        return Attempt(outcome, after, new)

    def _why_failed(self, error: str, *, through_backend: bool) -> str:
        """Say whether the target fails only with a change, or without it as well."""
        if through_backend not in self._failing:
            failed = ""
            try:
                self._runner.capture(Trial(), through_backend=through_backend)
            except FailedTrialError as found:
                failed = str(found)
            self._failing[through_backend] = failed
        unchanged = self._failing[through_backend]
        if unchanged and _ALIKE.sub("#", unchanged) == _ALIKE.sub("#", error):
            return f"the target itself fails, before the change: {unchanged}"
        return f"the changed target fails: {error}"

    def _later(self, change: ChangeToProve) -> tuple[int, int] | None:
        """Return the recompilations in many calls, before and after a change; None: it saves none of them."""
        if self._runner.is_program:
            return None
        try:
            self._many = self._many or self._runner.capture(Trial(), calls=CALLS)
            after = self._runner.capture(change.trial, calls=CALLS)
        except FailedTrialError:  # what fails in more calls saves nothing there
            return None
        before = self._many
        # Fewer calls recompile less often, and after the limit Dynamo stops recompiling: neither is a saving.
        if before.calls != after.calls or (after.limit.hit and not before.limit.hit):
            return None
        numbers = len(before.recompiles), len(after.recompiles)
        return numbers if numbers[1] < numbers[0] else None

    def through_backend(self, change: ChangeToProve, outcome: ProofOutcome, *, build: bool) -> ProofOutcome:
        """Run a proved change through Inductor, with `build` also its kernels, and add what that showed.

        Raises:
            InterruptedTrialError: Ctrl-C.
        """
        note = "compiled results compared with built kernels" if build else "proved up to Inductor: kernels not built"
        if self._runner.is_program:
            return replace(outcome, note="compiled with backend eager; Inductor was not compared with eager")
        try:
            session = self._runner.capture(change.trial, through_backend=True, build=build)
        except FailedTrialError as error:
            return refused(outcome, f"the changed target fails with Inductor: {error}")
        known = Counter(_dangers(self._session))
        wrong = [each for each in _dangers(session) if not known[each]]
        if wrong:
            return replace(refused(outcome, f"compiled by Inductor, {words_of(wrong[0])}"), note=note)
        check = ProofCheck(INDUCTOR, True, f"{session.compared or 0} calls compared")
        return replace(outcome, checks=(*outcome.checks, check), note=note)

    def fails_with_inductor(self) -> bool:
        """Whether the unchanged target fails with Inductor: no repair is to blame then."""
        self._why_failed("", through_backend=True)
        return bool(self._failing[True])

    def _behavior(self, change: ChangeToProve) -> _Behavior:
        """Observe the calls with and without a change."""
        if change.changes_arithmetic and self._runner.is_program:
            return _failed(ProofCheck("within_rounding", False, "changed arithmetic is only compared for model files"))
        before, failed = self._watched(change)
        if failed is not None:
            return _failed(failed)
        # Options of torch.compile act on no eager call, and two runs of the unchanged program were equal.
        values = self._runner.new_folder() if change.changes_arithmetic else ""
        is_same = change.keeps_eager and not before.compiles and not self._runner.is_program and not values
        if is_same:
            after = before
        else:
            timed = () if change.keeps_eager else tuple(name for name, _ in before.times)
            request = replace(self._request, probes=before.probes, values=values, timed=timed)
            after = self._runner.observe(change.trial, request)
        if after.left_out:  # the calls that are missing differ in nothing else
            return _failed(ProofCheck("probes", False, f"the changed target cannot be observed: {after.left_out}"))
        keeps_gradients = not (change.drops_gradients or self._inference)
        every = differences(before, after, rounded=change.changes_arithmetic, gradients=keeps_gradients)
        unusual, found = _parted(_accepted(every, before, after))
        compared = kept_checks() if is_same else checks_of(found, len(before.entries))
        checks = [*compared, *_reach_checks(before, change)]
        of_gradients: set[str] = set()
        if found:
            # Again without gradients: if nothing else differs, the same change is proved with --inference,
            # as the hint says.
            rest = differences(before, after, rounded=change.changes_arithmetic, gradients=False)
            if not _parted(_accepted(rest, before, after))[1]:
                of_gradients = {each.name for each in checks_of(found, 0) if not each.passed}
        compiled = _NOT_COMPILED
        if {each.name for each in checks if not each.passed} <= of_gradients:
            further, compiled = self._compared_further(change, before, after, values)
            checks += further
        slowdown = 1.0 if change.keeps_eager else _slowdown(before, after)
        if slowdown is None:
            why = "the times of eager calls could not be measured"
            if before.uncopied:
                why = f"the model cannot be copied ({before.uncopied}), so no two calls begin with the same state"
            checks.append(ProofCheck("eager_cost", False, why))
        questions = _questions(change, unusual)
        cost = _question_of_cost(slowdown, _longer(before, after))
        cost = f"{questions.pop(obligations.COST, '')} {cost}".strip()
        closed = obligations.tried(
            change.names,
            before,
            found,
            unreached=next((each.detail for each in checks if not each.passed and each.name in _SHOW_NOTHING), ""),
            compiled=compiled,
            keeps_eager=change.keeps_eager,
            runs_hooks=change.runs_hooks,
        )
        closed = obligations.with_cost(obligations.asked(closed, questions, accepted=False), slowdown, asks=cost)
        questions |= {obligations.COST: cost} if cost else {}
        return _Behavior(_with_hint(checks, of_gradients), closed, slowdown, tuple(questions.items()))

    def _compared_further(
        self, change: ChangeToProve, before: Observed, after: Observed, values: str
    ) -> tuple[list[ProofCheck], str]:
        """Compare values within rounding, where some were saved, then compiled calls; say how the latter differ."""
        checks = [self._within_rounding(before, after, values)] if values else []
        if not all(each.passed for each in checks):
            return checks, _NOT_COMPILED
        check = self._compiled_check(change, before, after)
        return [*checks, check], "" if check.passed else check.detail

    def _within_rounding(self, before: Observed, after: Observed, values: str) -> ProofCheck:
        """Make the unchanged target's calls again, and compare them with the values that the changed one saved."""
        name = "within_rounding"
        request = replace(
            self._request, probes=before.probes, against=values, timed=(), seconds=PROBE_SECONDS * _REFERENCES
        )
        again = self._runner.observe(Trial(), request)
        if again.left_out:
            return ProofCheck(name, False, again.left_out)
        if apart := differences(before, again):
            return ProofCheck(name, False, f"two runs of the unchanged target differ: {apart[0].detail}")
        if again.rounding:
            return ProofCheck(name, False, again.rounding[0])
        # Of each call that both programs return from, or there is a hole that nothing else shows.
        number = len(_returning(again) & _returning(after))
        if again.compared != number or not number:
            return ProofCheck(name, False, f"{again.compared} of {number} calls were compared")
        return ProofCheck(name, True, f"{number} calls within rounding")

    def _watched(self, change: ChangeToProve) -> tuple[Observed, ProofCheck | None]:
        """Observe the unchanged target with the conditions of a change watched; return what failed, too."""
        before = self._before
        assert before is not None
        if set(change.conditions) <= set(self._conditions):
            sides = tuple(each for each in before.sides if each.condition in change.conditions)
            return replace(before, sides=sides), None
        watched = self._runner.observe(Trial(), replace(self._request, conditions=change.conditions))
        if watched.left_out:
            return watched, ProofCheck("probes", False, watched.left_out)
        # Watching takes time, which the odd inputs then lack: the later ones may be missing.
        common = {each.name for each in watched.entries} & {each.name for each in before.entries}
        apart = differences(_only(before, common), _only(watched, common))
        if not apart:
            return watched, None
        unended = {(each.name, each.call) for each in watched.entries if each.unended}
        why = "evaluating the condition changes the call"
        if (apart[0].entry, apart[0].call) in unended:
            why = f"watching the condition takes too long with {apart[0].entry}"
        return watched, ProofCheck("both_sides", False, f"{why}: {apart[0].detail}")

    def _compiled_check(self, change: ChangeToProve, before: Observed, after: Observed) -> ProofCheck:
        """Compare compiled calls of the changed target with its eager calls.

        A difference that the unchanged target shows as well is not the repair's fault.
        """
        probes, kept = _compiled_probes(before)
        # Inductor computes the gradients of compiled code, so `through_backend` compares them.
        request = replace(self._request, compiled=True, probes=(*probes, *kept), kept=kept, timed=())
        compiled = self._runner.observe(change.trial, request)
        found = _compiled_differences(after, compiled)
        if change.may_drop_output:
            # A call that raises in eager may go on in compiled code, as the author agrees to.
            raising = {(each.name, each.call) for each in after.entries if each.raised}
            found = [each for each in found if each.kind not in WRITTEN and (each.entry, each.call) not in raising]
        if found:
            known = self._known(before, request)
            found = [each for each in found if (each.entry, each.call, each.kind) not in known]
        number = sum(not each.raised for each in compiled.entries)
        if found:
            return ProofCheck(
                "compiled_equal", False, f"compiled, {found[0].entry} differs from eager: {found[0].detail}"
            )
        return ProofCheck("compiled_equal", True, f"{number} compiled calls equal eager")

    def _known(self, before: Observed, request: ProofRequest) -> set[tuple[str, int, str]]:
        """Return how compiled calls of the unchanged target differ from its eager calls."""
        probes = request.probes or ()
        # Compiling takes as long as a trial, and for changes with the same probes the unchanged target shows the same.
        if probes not in self._compiled:
            self._compiled[probes] = self._runner.observe(Trial(), request)
        found = _compiled_differences(before, self._compiled[probes])
        return {(each.entry, each.call, each.kind) for each in found}


def refused(outcome: ProofOutcome, why: str) -> ProofOutcome:
    """Return an outcome without Inductor as that of a repair that Inductor refuses."""
    closed = tuple(
        replace(each, closed=False, how=How.TRYING, detail=why) if each.name == obligations.COMPILED else each
        for each in outcome.obligations
    )
    return replace(outcome, checks=(*outcome.checks, ProofCheck(INDUCTOR, False, why)), obligations=closed)


def _with_hint(checks: list[ProofCheck], of_gradients: set[str]) -> tuple[ProofCheck, ...]:
    """Suggest --inference if only gradients differ, or whether results have some."""
    if {each.name for each in checks if not each.passed} != of_gradients:
        return tuple(checks)
    hint = "; proved for calls without gradients: use --inference"
    return tuple(each if each.passed else replace(each, detail=f"{each.detail}{hint}") for each in checks)


def _only(observed: Observed, names: Iterable[str]) -> Observed:
    kept = set(names)
    return Observed(tuple(each for each in observed.entries if each.name in kept))


def _compiled_probes(before: Observed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose the probes to compile: a few, and one for each side of a condition; and those that run their graphs."""
    chosen = [name for name in before.probes if name.rpartition(", ")[2] in _FEW_PROBES]
    for each in before.sides:
        for names in (each.true, each.false):
            chosen += [next((name for name in names if name in before.probes), "")]
    raising = {each.name for each in before.entries if each.raised}
    reaching = {name for each in before.sides for name in (*each.true, *each.false)}
    first: dict[str, str] = {}
    for entry in before.entries:
        is_probe = entry.name in before.probes and not _is_unusual(entry.name)
        if entry.raised and is_probe and (not reaching or entry.name in reaching):
            first.setdefault(entry.raised, entry.name)
    kept = [name for name in chosen if name and name not in raising and not _is_unusual(name)]
    # Errors of torch come last: the program's own are rarer, and more often follow a change of state.
    own = sorted(first, key=lambda raised: raised.startswith(("RuntimeError", "before the call")))
    chosen = list(dict.fromkeys((*kept, *(first[raised] for raised in own[:_MOST_RAISING]))))
    # Calls that raise are left out: they would end before the graph that they are to run.
    again = [each for each in before.probes if each.rpartition(", ")[2] in _OF_VALUES and each not in raising]
    return tuple(chosen), tuple(each for each in again if each not in chosen)


def _compiled_differences(eager: Observed, compiled: Observed) -> list[CallDifference]:
    """List how compiled calls differ from the same calls in eager.

    Of two that both raise, only the state and the inputs that they leave behind are compared: torch has errors of its
    own.
    """
    names = {(each.name, each.call) for each in compiled.entries}
    mine = Observed(tuple(each for each in eager.entries if (each.name, each.call) in names))
    raising = {(each.name, each.call) for each in mine.entries if each.raised}
    both = {(each.name, each.call) for each in compiled.entries if each.raised} & raising
    found = differences(mine, compiled)
    return [each for each in found if (each.entry, each.call) not in both or each.kind in ("state", "inputs")]


def _reach_checks(before: Observed, change: ChangeToProve) -> Iterable[ProofCheck]:
    """Yield the checks that the calls ran what changes, and ended."""
    if change.conditions or change.changes_arithmetic:
        sides = sides_check(before.sides, None)
        if sides is not None:
            yield sides
    # Infinitely many rounds, which both programs make, are no call of anybody.
    finite = tuple(each for each in before.entries if _UNUSUAL.get(_inputs_named(each.name)) != _INFINITE)
    ended = ended_check(replace(before, entries=finite), before.sides, keeps_eager=change.keeps_eager)
    if ended is not None:
        yield ended


def _failed(check: ProofCheck) -> _Behavior:
    return _Behavior((check,))


def _is_unusual(entry: str) -> bool:
    return bool(_words_of(_inputs_named(entry)))


def _words_of(inputs: str) -> str:
    """Return the question about inputs, or an attribute, that only the author can rule out; empty: there is none."""
    if inputs.startswith(ATTRIBUTE):
        name, _, kind = inputs.removeprefix(ATTRIBUTE).partition(" as ")
        return f"Do all objects have `self.{name}` of the same kind? As {kind}, {{}}"
    return _UNUSUAL.get(inputs, "")


def _inputs_named(entry: str) -> str:
    """Return the name of the inputs of a probe, whichever random numbers it draws, or values beside an empty tensor."""
    probe = entry.rpartition(", ")[2]
    what, beside, other = probe.partition(ON)
    if other.startswith(REDRAWN):
        return what
    if f"{what}{beside}" in _UNUSUAL:
        return f"{what}{beside}"
    if what in _UNUSUAL or what.startswith(ATTRIBUTE):
        return what
    if what.startswith(_OF_PRECISION) and (other in _UNUSUAL or other.startswith(ATTRIBUTE)):
        return other
    return probe


def _parted(found: Iterable[CallDifference]) -> tuple[list[CallDifference], list[CallDifference]]:
    """Return differences for inputs that the author may rule out, and all others."""
    every = list(found)
    unusual = [each for each in every if _is_unusual(each.entry)]
    return unusual, [each for each in every if not _is_unusual(each.entry)]


def _accepted(found: Iterable[CallDifference], before: Observed, after: Observed) -> list[CallDifference]:
    """Leave out masks of another dtype that the unchanged program refuses as well, on its other side.

    An op there says that masks are booleans: `if mask.any(): x = x.masked_fill(mask, 0)`.
    """
    every = list(found)
    refused = {(_dtype_of_masks(each.name), each.raised) for each in before.entries if each.raised}
    # The first call alone: the second begins with what the first one left behind.
    raised = {each.name: each.raised for each in after.entries if not each.call}
    dropped = {
        each.entry
        for each in every
        if each.refuses
        and _dtype_of_masks(each.entry)
        and (_dtype_of_masks(each.entry), raised.get(each.entry, "")) in refused
    }
    # Of an object with an attribute of another kind, or another dtype, which statement refuses it first, and how, is no
    # matter.
    both = _raising(before) & _raising(after)
    return [
        each
        for each in every
        if each.entry not in dropped
        and not (
            each.kind == "raised"
            and (each.entry, each.call) in both
            and _inputs_of(each).startswith((ATTRIBUTE, OTHERS_IN_FLOAT64))
        )
    ]


def _returning(observed: Observed) -> set[tuple[str, int]]:
    return {(each.name, each.call) for each in observed.entries if not each.raised and not each.unended}


def _raising(observed: Observed) -> set[tuple[str, int]]:
    return {(each.name, each.call) for each in observed.entries if each.raised}


def _dtype_of_masks(entry: str) -> str:
    """Return the dtype that a probe gives to masks; empty: it leaves them booleans."""
    _, mark, rest = _inputs_named(entry).partition(_MASKS)
    return rest.partition(" ")[0] if mark else ""


def _inputs_of(difference: CallDifference) -> str:
    """Return the name of the inputs of a probe."""
    return _inputs_named(difference.entry)


def _question_about(difference: CallDifference) -> str:
    words = _words_of(_inputs_of(difference))
    what, _, beside = difference.entry.rpartition(", ")[2].partition(ON)
    is_of_values = what == OTHERS_IN_FLOAT64 or what.startswith(_OF_PRECISION)
    # Who tries the question with a scenario's inputs sees no difference: they take the side where there is none.
    where = ""
    if beside and not is_of_values and not beside.startswith(REDRAWN):
        where = " on the other side of the condition"
    return f"{words.format(f'eager differs{where}: {difference.detail}')}."


def _questions(change: ChangeToProve, unusual: Iterable[CallDifference]) -> dict[str, str]:
    """Return what only the author can know, by obligation: about odd inputs, and what reading leaves open."""
    # Of each obligation, the last entry of a dictionary stays: from the back, that is the first difference.
    last_first = list(unusual)[::-1]
    leading = {_inputs_of(each): each for each in last_first}  # what a call raises explains what it returns
    questions = {obligations.about(each): _question_about(leading[_inputs_of(each)]) for each in last_first}
    for name, text in change.asks:
        questions[name] = f"{questions.get(name, '')} {text}".strip()
    return questions


def _slowdown(before: Observed, after: Observed) -> float | None:
    """Return how many times as long the slowest call takes; None: no call was timed in both runs."""
    now = dict(after.times)
    return max((now[name] / seconds for name, seconds in before.times if name in now), default=None)


def _longer(before: Observed, after: Observed) -> float:
    """Return how many seconds more a call takes, at most."""
    now = dict(after.times)
    return max((now[name] - seconds for name, seconds in before.times if name in now), default=0.0)


def _question_of_cost(slowdown: float | None, longer: float) -> str:
    if slowdown is None or slowdown <= _SLOWER or (longer < _NOTICED and slowdown < _MUCH_SLOWER):
        return ""
    return f"May eager calls take {slowdown:.1f} times as long?"


def _graph_checks(before: Session, after: Session, change: ChangeToProve, effect: Effect) -> Iterable[ProofCheck]:
    now = keys_of(after)
    expected = keys_of(before) - change.gone
    new, renamed = new_keys(before, after)
    left = [key for key in change.gone if now[key] > expected[key] or is_left(key, renamed)]
    saves = effect.gain > 0
    if not change.gone or (left and saves and change.may_leave):
        detail = "fewer graphs or recompilations" if saves else "it saves no graph, break or recompilation"
        yield ProofCheck("finding_gone", saves, f"{detail}, but {words_of(left[0])} is left" if left else detail)
    else:
        detail = f"it is still there: {words_of(left[0])}" if left else "the finding is gone"
        yield ProofCheck("finding_gone", not left, detail)
    if before.failure is not None and after.failure is None:
        # What comes after the place that raised never ran before: whether it is new is not known.
        yield ProofCheck("nothing_new", True, "the run raised before, and goes on now")
    elif new:
        yield ProofCheck("nothing_new", False, f"there is something new: {words_of(next(iter(new)))}")
    elif renamed and not saves:
        yield ProofCheck("nothing_new", False, f"nothing is saved: there is {words_of(next(iter(renamed)))}, as before")
    else:
        yield ProofCheck(
            "nothing_new", True, "nothing breaks that did not break before" if renamed else "no new finding"
        )
    was, is_now = effect.before.coverage, effect.after.coverage
    lower = was is not None and is_now is not None and is_now < was - _SAME_COVERAGE
    if was is not None and is_now is not None:
        yield ProofCheck("coverage", not lower, f"{was:g}% of ops compiled before, {is_now:g}% after")
    # A run that compiles nothing has no findings either, so every check above would pass.
    lost = not after.graphs and bool(before.graphs)
    if lost:
        yield ProofCheck("graphs", False, "nothing is compiled any more")


def _only_left(checks: Iterable[ProofCheck], change: ChangeToProve) -> bool:
    """Whether the only trouble of a change is that recompilations are left, which many calls may have fewer of."""
    failed = [each.name for each in checks if not each.passed]
    return failed == ["finding_gone"] and any(key[0] == "recompile" for key in change.gone)


def _dangers(session: Session) -> list[Key]:
    return [key for key in keys_of(session).elements() if key[0] == "danger"]


def trial_with(files: Iterable[NewText], extra: Trial | None = None) -> Trial:
    """Return a trial with changed files and, where a setting is not a line of one, what `extra` changes."""
    return replace(extra or Trial(), sources=tuple(files))
