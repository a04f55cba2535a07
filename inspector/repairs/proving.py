"""Prove a change: eager stays the same, compiled equals eager, the finding is gone, and no finding is new."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts
from ctrace.inspector.model.diagnosis import Effect
from ctrace.inspector.model.session import Session
from ctrace.inspector.model.trial import Condition, NewText, Observed, ProofRequest, Trial
from ctrace.inspector.repairs.comparing import Difference, checks_of, differences, ended_check, sides_check
from ctrace.inspector.repairs.findings import ATTENTION, Key, keys_of, words_of
from ctrace.inspector.repairs.result import Check, Outcome
from ctrace.inspector.repairs.running import FailedTrialError, Runner

_FEW_PROBES = ("negated", "zeros", "positive", "negative", "integers 0", "inverted")
"""Probes that are also compiled, besides one for each side of a condition."""
_SAME_COVERAGE = 0.5
PROBE_SECONDS = 120.0
"""Time limit for the odd inputs of one observation; a target that needs more proves nothing."""


class Change(Struct, frozen=True):
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


class Attempt(Struct, frozen=True):
    """A proof, and the run with the change; None: the run failed."""

    outcome: Outcome
    session: Session | None = None
    uncovered: tuple[Key, ...] = ()
    """Findings that only appear with the change."""


class Prover:
    """Proves changes of one target; observes the unchanged target once."""

    def __init__(self, runner: Runner, session: Session, *, inference: bool = False) -> None:
        self._runner = runner
        self._request = ProofRequest("", gradients=not inference, seconds=PROBE_SECONDS)
        self._session = session
        self._inference = inference
        self._before: Observed | None = None
        self._compiled: dict[tuple[str, ...], Observed] = {}

    def why_unstable(self) -> str:
        """Observe the unchanged target twice; return how the two differ, empty if they do not.

        Raises:
            FailedTrialError: the target cannot be observed.
            InterruptedTrialError: Ctrl-C.
        """
        first = self._runner.observe(Trial(), self._request)
        second = self._runner.observe(Trial(), replace(self._request, probes=first.probes))
        self._before = first
        found = differences(first, second)
        if found:
            return f"two eager runs with the same seeds differ with {found[0].entry}: {found[0].detail}"
        if first.left_out:
            return f"it cannot be observed: {first.left_out}"
        if all(each.raised for each in first.entries):
            return f"every eager call raises: {first.entries[0].raised}" if first.entries else "nothing was called"
        return ""

    def attempt(self, change: Change, baseline: Session | None = None) -> Attempt:
        """Try a change; stop at the first part of the proof that fails.

        `baseline` is the run without the change, by default the run with the findings.

        Raises:
            InterruptedTrialError: Ctrl-C.
        """
        try:
            needs_backend = any(key[0] == ATTENTION for key in change.gone)
            after = self._runner.capture(change.trial, through_backend=needs_backend)
        except FailedTrialError as error:
            return Attempt(Outcome((Check("runs", False, f"the changed target fails: {error}"),)))
        before = baseline or self._session
        effect = Effect(counts(before), counts(after))
        checks = [*_graph_checks(before, after, change, effect)]
        new = tuple(_new(before, after))
        if all(each.passed for each in checks):
            try:
                checks += self._behavior_checks(change)
            except FailedTrialError as error:
                checks.append(Check("runs", False, f"the changed target cannot be observed: {error}"))
        return Attempt(Outcome(tuple(checks), effect), after, new)

    def through_backend(self, change: Change, outcome: Outcome, *, build: bool) -> Outcome:
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
            check = Check("inductor_equal", False, f"the changed target fails with Inductor: {error}")
            return replace(outcome, checks=(*outcome.checks, check))
        known = Counter(_dangers(self._session))
        wrong = [each for each in _dangers(session) if not known[each]]
        detail = f"compiled by Inductor, {words_of(wrong[0])}" if wrong else f"{session.compared or 0} calls compared"
        return replace(outcome, checks=(*outcome.checks, Check("inductor_equal", not wrong, detail)), note=note)

    def _behavior_checks(self, change: Change) -> Iterable[Check]:
        before = self._before
        assert before is not None
        sides = None
        folder = ""
        if change.changes_arithmetic:
            if self._runner.is_program:
                return [Check("within_rounding", False, "changed arithmetic is only compared for model files")]
            folder = self._runner.new_folder()
        if change.conditions or folder:
            watched = replace(self._request, conditions=change.conditions, values=folder)
            before, plain = self._runner.observe(Trial(), watched), before
            if before.left_out:
                return [Check("probes", False, before.left_out)]
            common = {each.name for each in before.entries} & {each.name for each in plain.entries}
            apart = differences(_only(plain, common), _only(before, common))
            if apart:
                return [Check("both_sides", False, f"evaluating the condition changes the call: {apart[0].detail}")]
            sides = sides_check(before.sides, None)
        after = self._runner.observe(change.trial, replace(self._request, probes=before.probes, against=folder))
        keeps_gradients = not (change.drops_gradients or self._inference)
        found = differences(before, after, rounded=change.changes_arithmetic, gradients=keeps_gradients)
        rest = found and differences(before, after, rounded=change.changes_arithmetic, gradients=False)
        checks = [*checks_of(found, len(before.entries))]
        if sides is not None:
            checks.append(sides)
        ended = ended_check(before, before.sides, keeps_eager=change.keeps_eager)
        if ended is not None:
            checks.append(ended)
        if folder:
            wrong = after.rounding or (() if after.compared else ("nothing was compared",))
            detail = wrong[0] if wrong else f"{after.compared} calls within rounding, by a float64 reference"
            checks.append(Check("within_rounding", not wrong, detail))
        of_gradients = {each.name for each in checks_of(found, 0) if not each.passed} if not rest else set()
        if {each.name for each in checks if not each.passed} <= of_gradients:
            checks.append(self._compiled_check(change, before, after))
        return _with_hint(checks, of_gradients)

    def _compiled_check(self, change: Change, before: Observed, after: Observed) -> Check:
        """Compare compiled calls of the changed target with its eager calls.

        A difference that the unchanged target shows as well is not the repair's fault.
        """
        probes = _compiled_probes(before)
        # Inductor computes the gradients of compiled code, so `through_backend` compares them.
        compiled = self._runner.observe(change.trial, replace(self._request, compiled=True, probes=probes))
        found = _compiled_differences(after, compiled)
        if change.may_drop_output:
            found = [each for each in found if each.kind not in ("printed", "logged", "warned")]
        if found:
            known = self._known(before, probes)
            found = [each for each in found if (each.entry, each.call, each.kind) not in known]
        number = sum(not each.raised for each in compiled.entries)
        if found:
            return Check("compiled_equal", False, f"compiled, {found[0].entry} differs from eager: {found[0].detail}")
        return Check("compiled_equal", True, f"{number} compiled calls equal eager")

    def _known(self, before: Observed, probes: tuple[str, ...]) -> set[tuple[str, int, str]]:
        """Return how compiled calls of the unchanged target differ from its eager calls."""
        if probes not in self._compiled:
            self._compiled[probes] = self._runner.observe(Trial(), replace(self._request, compiled=True, probes=probes))
        found = _compiled_differences(before, self._compiled[probes])
        return {(each.entry, each.call, each.kind) for each in found}


def _with_hint(checks: list[Check], of_gradients: set[str]) -> tuple[Check, ...]:
    """Suggest --inference if only gradients differ, or whether results have some."""
    if {each.name for each in checks if not each.passed} != of_gradients:
        return tuple(checks)
    hint = "; proved for calls without gradients: use --inference"
    return tuple(each if each.passed else replace(each, detail=f"{each.detail}{hint}") for each in checks)


def _only(observed: Observed, names: Iterable[str]) -> Observed:
    kept = set(names)
    return Observed(tuple(each for each in observed.entries if each.name in kept))


def _compiled_probes(before: Observed) -> tuple[str, ...]:
    """Choose the probes to compile: a few, and one for each side of a condition."""
    chosen = [name for name in before.probes if name.rpartition(", ")[2] in _FEW_PROBES]
    for each in before.sides:
        for names in (each.true, each.false):
            chosen += [next((name for name in names if name in before.probes), "")]
    raising = {each.name for each in before.entries if each.raised}
    return tuple(dict.fromkeys(name for name in chosen if name and name not in raising))


def _compiled_differences(eager: Observed, compiled: Observed) -> list[Difference]:
    """List how compiled calls differ from the same calls in eager; two that both raise count as equal."""
    names = {(each.name, each.call) for each in compiled.entries}
    mine = Observed(tuple(each for each in eager.entries if (each.name, each.call) in names))
    raising = {(each.name, each.call) for each in mine.entries if each.raised}
    both = {(each.name, each.call) for each in compiled.entries if each.raised} & raising
    return [each for each in differences(mine, compiled) if (each.entry, each.call) not in both]


def _graph_checks(before: Session, after: Session, change: Change, effect: Effect) -> Iterable[Check]:
    now = keys_of(after)
    expected = keys_of(before) - change.gone
    left = [key for key in change.gone if now[key] > expected[key]]
    if change.gone:
        detail = f"it is still there: {words_of(left[0])}" if left else "the finding is gone"
        yield Check("finding_gone", not left, detail)
    else:
        saves = effect.gain > 0
        detail = "fewer graphs or recompilations" if saves else "it saves no graph, break or recompilation"
        yield Check("finding_gone", saves, detail)
    new = list(_new(before, after))
    yield Check("nothing_new", not new, f"there is something new: {words_of(new[0])}" if new else "no new finding")
    was, is_now = effect.before.coverage, effect.after.coverage
    lower = was is not None and is_now is not None and is_now < was - _SAME_COVERAGE
    if was is not None and is_now is not None:
        yield Check("coverage", not lower, f"{was:g}% of ops compiled before, {is_now:g}% after")
    lost = not after.graphs and bool(before.graphs)
    if lost:
        yield Check("graphs", False, "nothing is compiled any more")


def _new(before: Session, after: Session) -> Iterable[Key]:
    return (keys_of(after) - keys_of(before)).keys()


def _dangers(session: Session) -> list[Key]:
    return [key for key in keys_of(session).elements() if key[0] == "danger"]


def trial_with(files: Iterable[NewText], extra: Trial | None = None) -> Trial:
    """Return a trial with changed files and, where a setting is not a line of one, what `extra` changes."""
    return replace(extra or Trial(), sources=tuple(files))


def texts_of(files: Mapping[str, str]) -> tuple[NewText, ...]:
    """Return files in the form that a trial takes."""
    return tuple(NewText(file, text) for file, text in files.items())
