"""Find repairs for the findings of a run, try each in a separate process, and combine the proved ones.

Some only help together: several places of one finding, or a repair that uncovers the next finding. A break in a loop,
for example, makes Dynamo skip the whole function, so only its first break is known.
"""

import difflib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from shutil import which

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts, diagnose, trials
from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.diagnosis import Effect, RootCause, Suggestion
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Condition, Mined, NewText, Trial
from ctrace.inspector.facts.trial import Tried as TriedTrial
from ctrace.inspector.features.fix.repairs.candidates import Files, RepairCandidate, candidates, conditions_of
from ctrace.inspector.features.fix.repairs.mining import mined, runs_hooks, writers
from ctrace.inspector.features.fix.repairs.monkeypatch import monkeypatched
from ctrace.inspector.features.fix.repairs.obligations import asked, question_about
from ctrace.inspector.features.fix.repairs.proving import (
    INDUCTOR,
    Attempt,
    ChangeToProve,
    Key,
    Prover,
    is_left,
    keys_of,
    keys_of_cause,
    new_keys,
    refused,
    scene_of,
    trial_with,
)
from ctrace.inspector.features.fix.repairs.repair_result import (
    Combined,
    CombinedStep,
    Fixes,
    ProofOutcome,
    TriedRepair,
    missed_findings,
)
from ctrace.inspector.features.fix.repairs.repair_texts import changed_lines, merged_files, patch_of
from ctrace.inspector.features.fix.repairs.trial_runs import (
    FailedTrialError,
    InterruptedTrialError,
    Runner,
    SearchBudget,
)
from ctrace.inspector.runs.trial_runner import CALLS

_ENOUGH = 2
"""Proved repairs to find for one finding: each alternative costs time."""
_LONGEST_CHAIN = 3
"""Repairs that are tried together where each uncovers the next finding."""
_MOST_TRIES = 10
"""Candidates to try for one finding."""
MONKEYPATCH = "monkeypatch"
"""The name of a repair that replaces a package's functions from the user's file."""

_SETS, _SAYS = "set_", "get_"
"""How the names of two methods begin that set a choice of a library and say it."""

Say = Callable[[str], None]
TOGETHER = "+"
"""Stands between the names of repairs that are tried together."""
_MOST_SECOND = 3
"""Second repairs to try for one first repair."""


class RepairChoice(Struct, frozen=True):
    """Which repairs to try, and how much to prove."""

    names: tuple[str, ...] = ()
    """Repairs to try, by name; empty: all."""
    finding: str = ""
    """The finding to repair, by id or place; empty: all."""
    accepted: tuple[str, ...] = ()
    """Repairs whose question the user answered with yes."""
    inference: bool = False
    """Whether to ignore gradients."""
    combine: bool = True
    """Whether to compose the proved repairs and prove them together."""
    build: bool = True
    """Whether to build kernels for the last proof, if there is a compiler."""
    findings: tuple[str, ...] = ()
    """The findings to repair, by id; empty: all."""


class _SpentBudgetError(Exception):
    """No time is left for another trial."""


class Fixing:
    """One search for repairs."""

    def __init__(
        self,
        session: Session,
        runner: Runner,
        budget: SearchBudget,
        *,
        target: str | None,
        choice: RepairChoice,
        say: Say,
    ) -> None:
        self._session = session
        self._runner = runner
        self._budget = budget
        self._target = target
        self._choice = choice
        self._say = say
        self._prover = Prover(runner, session, inference=choice.inference)
        self._files = Files()
        self._scene = scene_of(session)
        self._tried: list[tuple[RepairCandidate, Attempt]] = []
        self._untried = 0
        self._left_out: list[str] = []
        self._every: list[RepairCandidate] | None = None

    def files_to_change(self) -> tuple[str, ...]:
        """Return the user's files that the repairs to try would change, before any is tried."""
        waiting = self._ordered(self._candidates(), self._findings())
        return tuple(dict.fromkeys(text.file for each in waiting if not each.library for text in each.files))

    def _findings(self) -> tuple[RootCause, ...]:
        return tuple(each for each in self._scene.causes if not each.expected)

    def _candidates(self) -> list[RepairCandidate]:
        if self._every is None:
            self._every = list(candidates(self._scene, self._files, self._target))
        return self._every

    def run(self) -> Fixes:
        """Search until nothing is left to try, or the budget is spent."""
        began = time.monotonic()
        unstable, combined, interrupted = "", None, False
        not_asked: tuple[str, ...] = ()
        advice: tuple[Suggestion, ...] = ()
        findings = self._findings()
        try:
            every = self._candidates()
            # Before anything is tried, so that an interrupted search also tells these from findings without a repair.
            not_asked = tuple(self._not_asked(every, findings))
            waiting = list(self._ordered(every, findings))
            self._prover = Prover(
                self._runner,
                self._session,
                inference=self._choice.inference,
                mined=self._mined(waiting),
                conditions=tuple(dict.fromkeys(chain.from_iterable(each.conditions for each in waiting))),
            )
            if waiting:
                self._say("observing the target in eager")
                unstable = self._why_unstable()
            if unstable and self._budget.is_spent:  # it may have been stopped in the middle
                unstable, self._untried = "", len(waiting)
            elif waiting and not unstable:
                # One change is easier to accept than two, so repairs are only joined for what none solves alone.
                self._try_all(waiting)
                self._try_together()
                self._try_chains()
                if self._choice.combine:
                    combined = self._combined()
            # Also if nothing could be proved: then advice is all that there is.
            advice = self._advice({each.id for each in findings}.difference(not_asked))
        except (InterruptedTrialError, KeyboardInterrupt):
            interrupted = True
        return Fixes(
            self._session,
            self._scene.causes,
            missed=missed_findings(self._session),
            repairs=self._ranked(),
            combined=combined,
            unstable=unstable,
            problems=tuple(self._files.problems),
            seconds=time.monotonic() - began,
            budget=self._budget.seconds,
            budget_spent=self._untried > 0 or bool(self._left_out),
            untried=self._untried,
            left_out=tuple(self._left_out),
            interrupted=interrupted,
            not_asked=not_asked,
            advice=advice,
            texts=tuple(NewText(file, text) for file, text in self._files.all().items()),
        )

    def _mined(self, waiting: Iterable[RepairCandidate]) -> Mined:
        """Return what the code near the candidates compares with."""
        changed: dict[str, list[str]] = defaultdict(list)
        for each in waiting:
            # A setting's line stands behind the imports, so no condition is near to it.
            if each.kind != "source":
                continue
            for text in each.files:
                changed[text.file].append(text.text)
        # What a choice's getter returns differs with the repair that sets the choice, e.g.
        # `get_experts_implementation`.
        set_by = (name for each in waiting for name, _ in each.trial.calls if name.startswith(_SETS))
        reporting = tuple(dict.fromkeys(f"{_SAYS}{name.removeprefix(_SETS)}" for name in set_by))
        return replace(mined(self._files.all(), changed), reporting=reporting)

    def _advice(self, wanted: set[str]) -> tuple[Suggestion, ...]:
        """Return the advice of `explain`, tried as `explain` tries it if a `wanted` finding has no proved repair.

        Advice on one cause depends on all that was tried, so trials of some causes alone would advise otherwise. A
        program is not run again for advice, neither here nor by `explain`.
        """
        proved = [self._fixed_by(attempt) for _, attempt in self._tried if attempt.outcome.proved]
        is_needed = bool(wanted.difference(*proved)) and not self._runner.is_program

        def attempt(trial: Trial, through_backend: bool) -> Session:
            self._say("checking the advice of explain")
            try:
                found = self._runner.capture(trial, through_backend=through_backend, calls=CALLS)
            except FailedTrialError as error:
                if self._budget.is_spent:
                    raise _SpentBudgetError from None
                raise RunError(str(error), "see the advice of ctrace explain") from None
            if self._budget.is_spent:  # it may have made fewer calls than it would
                raise _SpentBudgetError
            return found

        done: list[TriedTrial] = []
        try:
            if is_needed and (self._untried or self._budget.is_spent):
                raise _SpentBudgetError
            if is_needed:
                done.extend(trials(self._session, attempt))  # keeps those before an error
        except _SpentBudgetError:
            left_out = "the advice of explain was not checked"
            if done:
                left_out = "not all advice was checked"
            self._left_out.append(left_out)
        advice = diagnose(replace(self._session, trials=(*self._session.trials, *done))).advice
        # What is not tried says less than a repair that is proved.
        repaired = set().union(*proved)
        return tuple(each for each in advice if each.checked or not set(each.causes) <= repaired)

    def _why_unstable(self) -> str:
        try:
            return self._prover.why_unstable()
        except FailedTrialError as error:
            return f"the target cannot be observed in eager: {error}"

    def _ordered(self, found: Iterable[RepairCandidate], findings: tuple[RootCause, ...]) -> Iterator[RepairCandidate]:
        """Yield the best candidate of each finding, then the second best, and so on."""
        by_finding: dict[str, list[RepairCandidate]] = defaultdict(list)
        for each in found:
            if self._is_wanted(each):
                by_finding[each.finding].append(each)
        # If the budget ends early, each finding had its best candidates tried.
        for number in range(_MOST_TRIES):
            for cause in findings:
                mine = sorted(by_finding[cause.id], key=_worth)
                yield from mine[number : number + 1]

    def _is_wanted(self, each: RepairCandidate) -> bool:
        choice = self._choice
        if choice.names and each.name not in choice.names:
            return False
        ids = {each.finding, *each.findings}
        if choice.findings and ids.isdisjoint(choice.findings):
            return False
        return not choice.finding or choice.finding in ids or self._is_at(each)

    def _is_at(self, each: RepairCandidate) -> bool:
        """Whether a candidate is for a finding at the place that the user named."""
        causes = [cause for cause in self._scene.causes if cause.id in (each.finding, *each.findings)]
        return any(map(self._is_named, causes))

    def _is_named(self, cause: RootCause) -> bool:
        """Whether the user named a finding, by its id or as `file.py:12`."""
        name, _, line = self._choice.finding.rpartition(":")
        is_there = bool(name) and bool(cause.file) and str(cause.file).endswith(name) and str(cause.line) == line
        return is_there or cause.id in (self._choice.finding, *self._choice.findings)

    def _not_asked(self, every: Iterable[RepairCandidate], findings: Collection[RootCause]) -> Iterator[str]:
        """Yield the findings that the user's choice leaves out: others were named, or other repairs."""
        choice = self._choice
        known = {each.id: set[bool]() for each in findings}
        for each in every:
            for id_ in {each.finding, *each.findings} & known.keys():
                known[id_].add(self._is_wanted(each))
        for cause in findings:
            # A finding without any candidate is left out only if others were named: else it is one without a repair.
            others_are = bool(choice.finding or choice.findings) and not self._is_named(cause)
            if True not in known[cause.id] and (others_are or known[cause.id]):
                yield cause.id

    def _try_all(self, waiting: list[RepairCandidate]) -> None:
        proved: Counter[str] = Counter()
        for number, each in enumerate(waiting, 1):
            if proved[each.finding] >= _ENOUGH:
                continue
            if self._budget.is_spent:  # go on, to count all that is left
                self._untried += 1
                continue
            self._say(f"trying {number} of {len(waiting)}: {each.name}")
            if not self._try(each):
                continue
            proved.update(self._solves(*self._tried[-1]))
            # A package's file is lost with its next update; the same repair in the user's own file stays.
            outside = self._outside(each)
            if outside is not None and not self._budget.is_spent:
                self._say(f"trying {number} of {len(waiting)}: {each.name} from your file")
                self._try(outside)

    def _solved(self) -> set[str]:
        """Return the findings that a proved repair is for."""
        solved: set[str] = set()
        for candidate, attempt in self._tried:
            if attempt.outcome.proved:
                solved |= self._solves(candidate, attempt)
        return solved

    def _solves(self, candidate: RepairCandidate, attempt: Attempt) -> set[str]:
        """Return the findings that need no other repair after a proved one: a setting may only save graphs."""
        findings = {candidate.finding, *candidate.findings}
        if candidate.removes and candidate.kind == "configuration":
            return findings & self._fixed_by(attempt)
        return findings

    def _try_together(self) -> None:
        """Try the repairs of one finding together where each removes only one of its places."""
        parts: dict[str, list[RepairCandidate]] = defaultdict(list)
        for each, attempt in self._tried:
            if gets_on(attempt, self._change(each).gone, self._session):
                parts[each.finding].append(each)
        solved = self._solved()
        for finding, mine in parts.items():
            if finding in solved:
                continue
            both = together(mine, self._files.all())
            if both is not None and not self._budget.is_spent:
                self._say(f"trying {both.name} at several places")
                self._try(both)

    def _try_chains(self) -> None:
        """Try two or three repairs together where one uncovers the next finding, as in a loop that breaks twice."""
        solved = self._solved()
        # Taken from the front and added at the end, so all chains of two come before the first of three.
        waiting = [(each, attempt, 1) for each, attempt in self._tried if each.finding not in solved]
        while waiting:
            first, attempt, length = waiting.pop(0)
            if first.finding in solved or length >= _LONGEST_CHAIN:
                continue
            if not uncovers(attempt, self._change(first).gone, self._session):
                continue
            for both in chained(first, attempt, self._files, self._target):
                if self._budget.is_spent:
                    self._untried += 1
                    return
                if both.question and not first.question:
                    continue  # a question must not come with a repair that needs none
                if self._choice.names and not names_of(both) <= set(self._choice.names):
                    continue
                self._say(f"trying {both.name}")
                if self._try(both):
                    solved.add(first.finding)
                    break
                waiting.append((*self._tried[-1], length + 1))

    def _try(self, each: RepairCandidate) -> bool:
        """Try a candidate, and return whether it is proved."""
        attempt = self._prover.attempt(self._change(each))
        if self._budget.is_spent and not attempt.outcome.proved:
            self._untried += 1  # it may have failed only because time ran out
            return False
        self._tried.append((each, attempt))
        return attempt.outcome.proved

    def _outside(self, each: RepairCandidate) -> RepairCandidate | None:
        """Return a repair of a package's file as code for the user's file; None: there is no such code."""
        user = None
        if self._target is not None and each.library:
            user = self._files.text(self._target)
        # The copy in the user's file comes with a question of its own, and two would be too many.
        if user is None or self._target is None or len(each.files) != 1 or self._asks(each):
            return None
        (file,) = each.files
        found = monkeypatched(user, file.file, self._files.all()[file.file], file.text)
        # The target may itself be a file of a package, which an update replaces as well.
        if found is None or not self._scene.is_users(self._target):
            return None
        names = " and ".join(f"`{name}`" for name in found.names)
        return replace(
            each,
            name=MONKEYPATCH,
            summary=f"Replace {names} of {each.library} from your file: {each.summary[:1].lower()}{each.summary[1:]}",
            files=(NewText(self._target, found.text),),
            question=f"May your file replace {names} of {each.library}?",
            library="",
        )

    def _change(self, each: RepairCandidate, files: tuple[NewText, ...] | None = None) -> ChangeToProve:
        gone: Counter[Key] = Counter()
        mine = {each.finding}
        if each.kind != "source":  # a rewrite is for one place, a setting for all that it is said to remove
            mine.update(each.findings)
        if each.removes:
            for cause in self._scene.causes:
                if cause.id in mine:
                    gone += keys_of_cause(cause, self._session)
        return ChangeToProve(
            trial_with(each.files if files is None else files, each.trial),
            gone,
            each.conditions,
            each.changes_arithmetic,
            each.may_drop_output,
            keeps_eager=_keeps_eager(each),
            drops_gradients=each.drops_gradients,
            names=tuple(sorted(names_of(each))),
            runs_hooks=any(runs_hooks(self._files.text(text.file) or "") for text in each.files),
            may_leave=each.kind == "configuration",
            asks=each.asks,
        )

    # The combination

    def _combined(self) -> Combined | None:
        """Add repairs, the best first, as long as the combination is proved and better."""
        free = [pair for pair in self._tried if pair[1].outcome.proved and self._may_combine(*pair)]
        free.sort(key=lambda pair: self._rank(*pair))
        steps: list[CombinedStep] = []
        files: tuple[NewText, ...] = ()
        trial = Trial()
        members: list[RepairCandidate] = []
        chosen: list[tuple[RepairCandidate, Attempt]] = []
        attempt: Attempt | None = None
        fixed: set[str] = set()
        for each, alone in free:
            pair = each, alone
            # An earlier member may have removed this finding, too: another repair would only change more lines.
            if each.finding in fixed or self._budget.is_spent:
                continue
            both = merged_files(self._files.all(), files, each.files)
            joined = _joined(trial, each.trial)
            if both is None or joined is None:
                continue
            if not self._solves(each, alone):
                each = replace(each, removes=False)  # it only saves graphs
            # The first one has been proved alone.
            current = alone if not members else self._proved_together(attempt, [*members, each], both, joined)
            if current is None:
                continue
            attempt = current
            members.append(each)
            chosen.append(pair)
            files, trial = both, joined
            fixed |= self._fixed_by(attempt)
            if attempt.session is not None:
                steps.append(CombinedStep(each.name, each.summary, counts(attempt.session)))
        if attempt is None or not members:
            return None
        change = self._together(members, files, trial)
        outcome = self._finished(change, attempt.outcome, build=self._choice.build and can_build())
        if self._has_refused(chosen, outcome):
            return self._combined()  # of the others; each round leaves out one or more, so it ends
        for each in members:
            outcome = self._with_answers(each, outcome)
        base = self._files.all()
        how = tuple(each.how for each in members if each.how)
        return Combined(tuple(steps), outcome, files, patch_of(base, files, self._cwd), how, tuple(sorted(fixed)))

    def _proved_together(
        self, before: Attempt | None, members: list[RepairCandidate], files: tuple[NewText, ...], trial: Trial
    ) -> Attempt | None:
        """Prove repairs together; None: they are not proved or not better, or ask what none of them asks alone."""
        self._say(f"combining {len(members)} repairs")
        current = self._prover.attempt(self._together(members, files, trial))
        is_good = current.outcome.proved and _is_better(before, current)
        if is_good and self._is_answered(members, current.outcome):
            return current
        return None

    def _finished(self, change: ChangeToProve, outcome: ProofOutcome, *, build: bool) -> ProofOutcome:
        if not self._budget.is_spent:
            self._say("compiling the repaired target with Inductor")
            found = self._prover.through_backend(change, outcome, build=build)
            if found.proved or not self._budget.is_spent:
                return found
        self._left_out.append("the repairs were not compiled with Inductor")
        return replace(outcome, note="the budget was spent before Inductor was tried")

    def _has_refused(self, chosen: list[tuple[RepairCandidate, Attempt]], outcome: ProofOutcome) -> bool:
        """Mark the repairs of a combination that Inductor refuses as not proved; return whether there are any.

        Each was proved with Dynamo alone. One that the unchanged target fails with, too, is not to blame.
        """
        why = _refusal(outcome)
        if not why or self._prover.fails_with_inductor():
            return False
        has_refused = False
        for each, attempt in chosen:
            if len(chosen) > 1:  # of one, the refusal of the combination is its own
                if self._budget.is_spent:
                    break
                alone = self._prover.through_backend(self._change(each), attempt.outcome, build=False)
                why = _refusal(alone)
            if why:
                at = next(index for index, pair in enumerate(self._tried) if pair[1] is attempt)
                self._tried[at] = each, replace(attempt, outcome=refused(attempt.outcome, why))
                has_refused = True
        return has_refused

    def _may_combine(self, each: RepairCandidate, alone: Attempt) -> bool:
        """Whether a repair may be applied with others at once: it asks nothing, and changes no package."""
        return not self._question(each, alone.outcome) and not each.library

    def _is_answered(self, members: Iterable[RepairCandidate], outcome: ProofOutcome) -> bool:
        accepted = {*self._choice.accepted}
        return not outcome.questions or all(names_of(each) <= accepted for each in members)

    def _together(self, members: list[RepairCandidate], files: tuple[NewText, ...], trial: Trial) -> ChangeToProve:
        gone: Counter[Key] = Counter()
        for each in members:
            # A union, not a sum: repairs of one finding each name all of its places, and more than there are cannot go.
            gone |= self._change(each).gone
        return ChangeToProve(
            trial_with(files, trial),
            gone,
            tuple(dict.fromkeys(condition for each in members for condition in each.conditions)),
            any(each.changes_arithmetic for each in members),
            any(each.may_drop_output for each in members),
            keeps_eager=all(map(_keeps_eager, members)),
            drops_gradients=any(each.drops_gradients for each in members),
            names=tuple(sorted({name for each in members for name in names_of(each)})),
            runs_hooks=any(self._change(each).runs_hooks for each in members),
            asks=tuple(dict.fromkeys(ask for each in members for ask in each.asks)),
        )

    def _fixed_by(self, attempt: Attempt | None) -> set[str]:
        """Return the findings that are gone in a run."""
        if attempt is None or attempt.session is None:
            return set()
        now, was = keys_of(attempt.session), keys_of(self._session)
        # A finding that is still there under another name, such as at a line that moved, is not fixed.
        renamed = new_keys(self._session, attempt.session)[1]
        fixed = set()
        for cause in self._scene.causes:
            mine = keys_of_cause(cause, self._session)
            # Lines with the same text share a key, and may be of different causes: of its count, the share of this one
            # must go.
            if mine and all(now[key] <= was[key] - mine[key] and not is_left(key, renamed) for key in mine):
                fixed.add(cause.id)
        return fixed

    # The result

    @property
    def _cwd(self) -> str:
        return self._session.environment.cwd or "."

    def _ranked(self) -> tuple[TriedRepair, ...]:
        ordered = sorted(self._tried, key=lambda pair: self._rank(*pair))
        return tuple(self._as_tried(each, attempt) for each, attempt in ordered)

    def _as_tried(self, each: RepairCandidate, attempt: Attempt) -> TriedRepair:
        fixed: set[str] = set()
        if attempt.outcome.proved:
            fixed = self._fixed_by(attempt)
        only_saves = attempt.outcome.proved and not self._solves(each, attempt)
        names = [id_ for id_ in each.findings if id_ != each.finding and id_ in fixed]
        if not only_saves:
            names.insert(0, each.finding)
        return TriedRepair(
            each.finding,
            (*names, *sorted(fixed - set(names))),
            each.name,
            each.kind,
            each.summary,
            self._with_answers(each, attempt.outcome),
            each.files,
            patch_of(self._files.all(), each.files, self._cwd),
            each.how,
            self._question(each, attempt.outcome),
            each.changes_arithmetic,
            each.library,
        )

    def _question(self, each: RepairCandidate, outcome: ProofOutcome) -> str:
        """Return what is left to ask, by the repair and by its proof."""
        if names_of(each) <= set(self._choice.accepted):
            return ""
        return _asked_once((self._asks(each), *(text for _, text in outcome.questions)))

    def _asks(self, each: RepairCandidate) -> str:
        """Return the question that a repair declares; `--inference` says that nothing needs gradients."""
        is_answered = each.drops_gradients and self._choice.inference
        if is_answered:
            return ""
        return each.question

    def _with_answers(self, each: RepairCandidate, outcome: ProofOutcome) -> ProofOutcome:
        """Return an outcome in which questions stand for what they leave open."""
        questions = dict(outcome.questions)
        asks = self._asks(each)
        if asks and outcome.proved:
            name = question_about(names_of(each))
            questions[name] = " ".join(filter(None, [asks, questions.get(name, "")]))
        accepted = names_of(each) <= set(self._choice.accepted)
        return replace(outcome, obligations=asked(outcome.obligations, questions, accepted=accepted))

    def _rank(self, each: RepairCandidate, attempt: Attempt) -> tuple[object, ...]:
        """Return a sort key: proved first, then without a question, then the larger saving, then the smaller change."""
        outcome = attempt.outcome
        gain = 0
        if outcome.effect is not None:
            gain = outcome.effect.gain
        lines = changed_lines(self._files.all(), each.files)
        passed = sum(check.passed for check in outcome.checks)
        # Of repairs that failed, the one that passed most checks is first: its reason is the one to show for a finding.
        if not outcome.proved:
            return (1, 0, 0, -passed, lines)
        return (0, bool(self._question(each, outcome)), bool(each.library), -gain, lines)


def _refusal(outcome: ProofOutcome) -> str:
    """Return why Inductor refuses a repair; empty: it does not, or was not tried."""
    return next((each.detail for each in outcome.checks if each.name == INDUCTOR and not each.passed), "")


def names_of(each: RepairCandidate) -> set[str]:
    """Return the names of a repair, or of the repairs that are tried together."""
    return set(each.name.split(TOGETHER))


def _keeps_eager(each: RepairCandidate) -> bool:
    """Whether a candidate only sets options of torch.compile."""
    # A trial without a line, such as eval() or no_grad(), changes what eager calls do.
    return each.kind == "configuration" and not each.changes_arithmetic and each.trial == Trial()


def _worth(each: RepairCandidate) -> tuple[bool, bool, bool]:
    """Return a sort key: first candidates for the user's own files, then without a question, then source."""
    return bool(each.library), bool(each.question), each.kind != "source"


def _joined(first: Trial, second: Trial) -> Trial | None:
    """Return both settings as one; None: they conflict."""
    if first == Trial():
        return second
    if second in (Trial(), first):
        return first
    if first.dynamic is not None and second.dynamic is not None and first.dynamic != second.dynamic:
        return None
    return replace(
        first,
        dynamic=first.dynamic if second.dynamic is None else second.dynamic,
        grad=first.grad or second.grad,
        evaluate=first.evaluate or second.evaluate,
        calls=tuple(dict.fromkeys((*first.calls, *second.calls))),
        marked=tuple(dict.fromkeys((*first.marked, *second.marked))),
    )


def _is_better(before: Attempt | None, after: Attempt) -> bool:
    if before is None or before.session is None or after.session is None:
        return after.session is not None
    effect = Effect(counts(before.session), counts(after.session))
    return effect.gain > 0 or effect.helps


def can_build() -> bool:
    """Whether a C++ compiler is there, which Inductor needs on a CPU."""
    return any(which(name) for name in ("c++", "g++", "clang++", "cl"))


def _asked_once(questions: Iterable[str]) -> str:
    """Join questions; one that several inputs lead to is asked once, with what differs for each."""
    asked: dict[str, list[str]] = {}
    for text in dict.fromkeys(filter(None, questions)):
        question, mark, rest = text.partition("?")
        asked.setdefault(f"{question}{mark}", []).append(rest.strip())
    return " ".join(" ".join(filter(None, (question, *rests))) for question, rests in asked.items())


def uncovers(attempt: Attempt, gone: Counter[Key], before: Session) -> bool:
    """Whether a change fails only because it uncovers breaks; the function may be skipped for these, too."""
    if attempt.session is None:
        return False
    failed = {each.name for each in attempt.outcome.checks if not each.passed}
    was, now = keys_of(before), keys_of(attempt.session)
    # The skip of a function may stay, because of the break that the change uncovered.
    left = [key for key in gone if key[0] != "skip" and now[key] > was[key] - gone[key]]
    is_new = any(key[0] == "break" for key in attempt.uncovered)
    return is_new and not left and "nothing_new" in failed and failed <= {"nothing_new", "finding_gone", "coverage"}


def gets_on(attempt: Attempt, gone: Counter[Key], before: Session) -> bool:
    """Whether a change fails only because it removes one of several places of its finding."""
    if attempt.session is None:
        return False
    failed = {each.name for each in attempt.outcome.checks if not each.passed}
    was, now = keys_of(before), keys_of(attempt.session)
    return failed == {"finding_gone"} and any(now[key] < was[key] for key in gone)


def together(parts: Iterable[RepairCandidate], base: Mapping[str, str]) -> RepairCandidate | None:
    """Return repairs of several places as one, each place by the first of its repairs; None: there is one place."""
    members: list[RepairCandidate] = []
    files: tuple[NewText, ...] = ()
    for each in parts:
        both = None
        if each.files and each.trial == Trial():
            both = merged_files(base, files, each.files)
        # One question about a package, and one patch, are for one package.
        if both is not None and (not members or each.library == members[0].library):
            members.append(each)
            files = both
    if len(members) < 2:
        return None
    return replace(
        members[0],
        name=TOGETHER.join(dict.fromkeys(each.name for each in members)),
        summary=" ".join(dict.fromkeys(each.summary for each in members)),
        files=files,
        conditions=tuple(dict.fromkeys(condition for each in members for condition in each.conditions)),
        question=" ".join(dict.fromkeys(each.question for each in members if each.question)),
        changes_arithmetic=any(each.changes_arithmetic for each in members),
        may_drop_output=any(each.may_drop_output for each in members),
        drops_gradients=any(each.drops_gradients for each in members),
        asks=tuple(dict.fromkeys(ask for each in members for ask in each.asks)),
    )


def chained(first: RepairCandidate, attempt: Attempt, files: Files, target: str | None) -> Iterator[RepairCandidate]:
    """Yield the repair together with repairs of what it uncovers.

    Args:
        first: the repair that is not proved.
        attempt: its attempt.
        files: the texts without it.
        target: the target's own file.
    """
    session = attempt.session
    if session is None or first.trial != Trial() or not first.files:
        return
    texts = {each.file: each.text for each in first.files}
    changed = Files({**files.all(), **texts})
    scene = scene_of(session)
    number = 0
    for second in candidates(scene, changed, target):
        if second.trial != Trial() or second.library != first.library or not _repairs(second, scene, attempt):
            continue
        both = _joined_chain(first, second, files, texts)
        if both is not None:
            yield both
            number += 1
        if number >= _MOST_SECOND:
            return


def _repairs(second: RepairCandidate, scene: DiagnosisScene, attempt: Attempt) -> bool:
    """Whether a candidate is for a finding that the first repair uncovered."""
    causes = [each for each in scene.causes if each.id in (second.finding, *second.findings)]
    return any(key in attempt.uncovered for each in causes for key in keys_of_cause(each, scene.session))


def _joined_chain(
    first: RepairCandidate, second: RepairCandidate, files: Files, texts: Mapping[str, str]
) -> RepairCandidate | None:
    after = {**texts, **{each.file: each.text for each in second.files}}
    before = {file: files.text(file) for file in after}
    conditions: dict[Condition, None] = dict.fromkeys(first.conditions)
    for file, text in after.items():
        old = before[file]
        if old is None:
            return None
        conditions |= dict.fromkeys((*conditions_of(file, old, text), *writers(file, old, text)))
    for each in second.conditions:
        # A candidate's lines count in the text with the first repair, a proof watches the text without any.
        if not each.expression and each.file in after:
            continue  # a line that must run; `conditions_of` names it where it exists before the repairs
        line = _line_before(before.get(each.file) or "", texts.get(each.file), each.line)
        if line is None:
            return None
        conditions[Condition(each.file, line, each.expression)] = None
    return replace(
        first,
        name=f"{first.name}{TOGETHER}{second.name}",
        kind=first.kind if first.kind == second.kind else "source",
        summary=f"{first.summary} {second.summary}",
        files=tuple(NewText(file, text) for file, text in after.items()),
        conditions=tuple(conditions),
        question=" ".join(each for each in (first.question, second.question) if each),
        changes_arithmetic=first.changes_arithmetic or second.changes_arithmetic,
        may_drop_output=first.may_drop_output or second.may_drop_output,
        drops_gradients=first.drops_gradients or second.drops_gradients,
        asks=tuple(dict.fromkeys((*first.asks, *second.asks))),
    )


def _line_before(before: str, between: str | None, line: int) -> int | None:
    """Return where a line of the text with the first repair is without it; None: it is not there."""
    if between is None:
        return line
    old, new = before.splitlines(), between.splitlines()
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        if block.b < line <= block.b + block.size:
            return line - block.b + block.a
    return None
