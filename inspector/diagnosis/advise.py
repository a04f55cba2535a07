"""Turn root causes into advice: choose which candidates to try, and keep those that help. If no single change removes
all causes, try several together: one may help only with another.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.diagnosis.attribute_changes import apply_of
from ctrace.inspector.diagnosis.diagnosis_scene import (
    CALLS,
    Candidate,
    DiagnosisScene,
    compile_seconds,
    lines_of,
    short_place,
)
from ctrace.inspector.diagnosis.diagnosis_scene import counts as counts
from ctrace.inspector.diagnosis.preconditions import contradiction, is_edit_of_library
from ctrace.inspector.diagnosis.root_causes import root_causes
from ctrace.inspector.edits.line_edits import is_disjoint
from ctrace.inspector.errors import CtraceError, telling_line
from ctrace.inspector.facts.diagnosis import Diagnosis, Effect, Finding, RootCause, Suggestion
from ctrace.inspector.facts.outcome import FailurePhase
from ctrace.inspector.facts.scenario_facts import EagerResult, ResultPart
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import UNCHANGED, LaterCalls, LineEdit, Trial, Tried, later_calls_of
from ctrace.inspector.source.open_questions import open_questions

# One change is a trial of its own; only several are worth one together.
_LEAST = 2
COMBINED = "combined"
_WITHOUT_EDITS = frozenset(("other_places", "nested_breaks"))
"""Rules whose changes work around what breaks; worth more than a combination of what changed nothing."""
_EQUAL = 1e-5
"""How far the numbers of equal results are apart, relative to their norm: an edit may change rounding in float32."""
_OTHER = 1e-2
"""From where on results are others: bfloat16 keeps 8 bits, and rounds to 0.4 % of each element."""


def combined(scene: DiagnosisScene, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Offer one trial of the most promising change for each cause; leave out what raised or changed results alone."""
    parts = list(_parts(scene, candidates))
    if len(parts) < _LEAST:
        return
    first, *others = (part.short for part in parts)
    if len(others) == 1:
        words = f"{first}; and {others[0]}"
    else:
        words = f"{first}; {'; '.join(others)}"
    causes = tuple(dict.fromkeys(id_ for part in parts for id_ in part.causes))
    trial = _merged([part.trial for part in parts if part.trial is not None])
    yield Candidate(
        f"Together: {words}.",
        causes,
        trial,
        only_checked=True,
        needs_backend=any(part.needs_backend for part in parts),
        rule=COMBINED,
    )


def _parts(scene: DiagnosisScene, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    covered: set[str] = set()
    taken: list[Trial] = []
    for each in sorted(candidates, key=lambda candidate: -candidate.worth):
        tried = scene.tried(each.trial)
        is_refuted = tried is not None and (tried.counts is None or tried.same_results is False)
        if not each.short or each.trial is None or is_refuted or set(each.causes) <= covered:
            continue
        # A change that is a part of another one is in the trial already, and its causes with it.
        if any(_includes(known, each.trial) for known in taken):
            covered |= set(each.causes)
        # Of two edits of one line, the one that is worth more stays.
        elif all(is_disjoint(each.trial.edits, known.edits) for known in taken):
            covered |= set(each.causes)
            taken.append(each.trial)
            yield each


def _includes(whole: Trial, part: Trial) -> bool:
    """Whether a trial has all settings of another trial, which changes nothing but settings."""
    return bool(part.settings) and set(part.settings) <= set(whole.settings) and not (part.edits or part.ignored)


def _merged(trials: list[Trial]) -> Trial:
    settings = dict(pair for each in trials for pair in each.settings)
    return Trial(
        settings=tuple(settings.items()),
        edits=tuple(edit for each in trials for edit in each.edits),
        ignored=tuple(dict.fromkeys(name for each in trials for name in each.ignored)),
    )


MOST_TRIALS = 3
"""The most runs that one `explain` spends on checking advice."""

Attempt = Callable[[Trial, bool], Session]
"""Runs the model with a trial: through the backend if the second argument is True, else through Dynamo alone."""


def diagnose(session: Session) -> Diagnosis:
    """Return the causes of a run, costliest first, and what to do about them, best first."""
    scene = _scene(session)
    judged = [_judged(each, scene) for each in _candidates(scene)]
    advice = tuple(_ordered(judged, scene))
    # A run that raised stopped early, so its counts are too low to measure savings.
    if session.failure is not None:
        causes = scene.causes
    else:
        causes = _with_saved_graphs(scene.causes, advice)
    later = later_calls_of(session.trials)
    return Diagnosis(causes, advice, later is not None and later.recompiles > len(session.recompiles))


def planned(session: Session) -> tuple[Candidate, ...]:
    """Return the candidates to try before any trial has run, most promising first, without duplicate trials."""
    scene = _scene(session)
    found: dict[Trial, Candidate] = {}
    for each in sorted(_worth_trying(scene, _candidates(scene)), key=lambda candidate: -candidate.worth):
        assert each.trial is not None
        found.setdefault(each.trial, each)
    return tuple(found.values())[:MOST_TRIALS]


def trials(session: Session, attempt: Attempt, causes: Collection[str] | None = None) -> Iterator[Tried]:
    """Try at most three candidates; yield the result of each trial.

    Each result affects the choice of the next trial: removed causes need no further trial, and rules see the result.
    With `causes`, only advice on these is tried.
    """
    done: list[Tried] = []
    while sum(each.trial != UNCHANGED for each in done) < MOST_TRIALS:
        known = replace(session, trials=tuple(done))
        each = _next(_scene(known), {tried.trial for tried in done}, causes)
        if each is None:
            break
        # More calls of the unchanged model first, since trials make as many and are compared with them.
        if not done and _may_go_on(session):
            done.append(_tried(session, UNCHANGED, attempt, through_backend=False))
            yield done[-1]
        assert each.trial is not None
        # A run that raised may do so after Dynamo, which a trial without the backend would not show.
        through_backend = each.needs_backend or session.failure is not None
        unchanged = next((tried for tried in done if tried.trial == UNCHANGED), None)
        tried = _tried(
            session,
            each.trial,
            attempt,
            through_backend=through_backend,
            is_timed=each.saves_time,
            unchanged=unchanged,
        )
        if tried.same_results is False:
            if unchanged is None:
                unchanged = _tried(session, UNCHANGED, attempt, through_backend=False)
                done.append(unchanged)
                yield unchanged
            if unchanged.same_results is False:
                tried = replace(tried, same_results=None)  # two runs of the model itself do not return the same, either
        done.append(tried)
        yield done[-1]
        if done[-1].settled and _judged(each, _scene(replace(session, trials=tuple(done)))).holds:
            break
    if not done and _may_go_on(session):
        yield _tried(session, UNCHANGED, attempt, through_backend=False)


def _may_go_on(session: Session) -> bool:
    """Whether later calls may recompile, too, so that two calls say too little."""
    return session.failure is None and any(each.call or not each.expected for each in session.recompiles)


def _next(scene: DiagnosisScene, done: set[Trial], wanted: Collection[str] | None) -> Candidate | None:
    """Return the most promising candidate to try next."""
    candidates = _candidates(scene)
    judged = [_judged(each, scene) for each in candidates]
    solved = {id_ for each in judged for id_ in each.gone}
    left = [
        each
        # Compile time is about no cause that another trial could remove.
        for each in _worth_trying(scene, candidates)
        if each.trial not in done and (each.saves_time or not set(each.causes) <= solved)
        if wanted is None or not set(each.causes).isdisjoint(wanted)
    ]
    # The combination comes last, when the other trials have shown which changes do something.
    is_last = len(done - {UNCHANGED}) == MOST_TRIALS - 1
    if is_last and (_changed_something(scene) or not any(each.rule in _WITHOUT_EDITS for each in left)):
        together = next((each for each in combined(scene, candidates) if each in left), None)
        if together is not None:
            return together
    return max(left, key=lambda candidate: candidate.worth, default=None)


def _changed_something(scene: DiagnosisScene) -> bool:
    """Whether a trial changed a count or moved a break, so that another change may complete it."""
    before = {line for each in scene.session.breaks for line in lines_of(each)}
    return any(
        each.counts is not None and (each.counts != counts(scene.session) or set(each.breaks) != before)
        for each in scene.session.trials
        if each.trial != UNCHANGED
    )


def _worth_trying(scene: DiagnosisScene, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that can be tried and change more than what is expected: nobody needs to change that.

    A repeated call should reuse its graph, so what recompiles there may go on.
    """
    expected = _expected(scene)
    return [
        each for each in candidates if each.trial is not None and (each.saves_time or not set(each.causes) <= expected)
    ]


def _expected(scene: DiagnosisScene) -> set[str]:
    """Return the causes that nobody needs to change, by id."""
    return {
        cause.id for cause in scene.causes if cause.expected and not any(each.call for each in scene.recompiles(cause))
    }


def _scene(session: Session) -> DiagnosisScene:
    return DiagnosisScene(session, root_causes(session))


def _candidates(scene: DiagnosisScene) -> list[Candidate]:
    """Return the candidates of all rules; after the first trial, also their combinations."""
    # An unrolled loop is no finding, and has advice on compile time.
    if not scene.causes and not scene.session.unrolled:
        return []
    from ctrace.inspector.diagnosis.rules import RULES  # imports 20 modules, which a run without findings does not need

    offered = (replace(each, rule=rule.__name__) for rule in RULES for each in rule(scene))
    found = [each for each in offered if not contradiction(each, scene)]
    has_tried = any(each.trial != UNCHANGED for each in scene.session.trials)
    return [_with_questions(each, scene) for each in (*found, *(combined(scene, found) if has_tried else ()))]


def _with_questions(candidate: Candidate, scene: DiagnosisScene) -> Candidate:
    """Add what the author has to know about edits that no trial can show."""
    if candidate.trial is not None:
        edits = candidate.trial.edits
    else:
        edits = ()
    asked: dict[str, None] = {}
    for file in dict.fromkeys(each.file for each in edits):
        text = scene.session.listings.get(file, "")
        asked |= dict.fromkeys(_questions_about(text, tuple(each for each in edits if each.file == file)))
    if asked:
        return replace(candidate, text=" ".join((candidate.text, *asked)))
    return candidate


@lru_cache(maxsize=64)
def _questions_about(text: str, edits: tuple[LineEdit, ...]) -> tuple[str, ...]:
    """Return the questions about edits of a file; cached, since candidates are made again after each trial."""
    lines = text.split("\n")
    for each in edits:
        if 0 < each.line <= len(lines):
            lines[each.line - 1] = each.text
    return open_questions(text, "\n".join(lines))


def _tried(
    before: Session,
    trial: Trial,
    attempt: Attempt,
    *,
    through_backend: bool,
    is_timed: bool = False,
    unchanged: Tried | None = None,
) -> Tried:
    began = time.monotonic()
    try:
        session = attempt(trial, through_backend)
    except CtraceError as error:
        return Tried(trial, None, time.monotonic() - began, error=error.what)
    seconds = time.monotonic() - began
    raised = ""
    if session.failure is not None:
        raised = telling_line(f"{session.failure.type}: {session.failure.message}")[:300]
        if not _raises_itself(session, trial, raised, unchanged):
            return Tried(trial, None, seconds, error=raised)
    breaks = tuple(dict.fromkeys(line for found in session.breaks for line in lines_of(found)))
    outlook = LaterCalls(session.calls, len(session.graphs), len(session.recompiles), session.limit.hit)
    if trial.parts:
        compiled = tuple(dict.fromkeys(f"{each.file}:{each.line}" for each in session.compilations))
    else:
        compiled = ()
    times = None
    if is_timed:
        times = compile_seconds(session)
    settled = _is_settled(session)
    return Tried(
        trial=trial,
        counts=counts(session),
        seconds=seconds,
        breaks=breaks,
        compiled=compiled,
        error=raised,
        calls=session.calls,
        outlook=outlook,
        compile_seconds=times,
        # Settings of torch.compile change nothing in eager.
        same_results=same_results(before, session) if trial.edits or trial == UNCHANGED else None,
        settled=settled and not raised,
    )


def _raises_itself(session: Session, trial: Trial, raised: str, unchanged: Tried | None) -> bool:
    """Whether a run raised after the calls that are counted, and as the unchanged model does in the same call.

    A model may raise in a later call whatever is changed, as where every fourth call needs gradients.
    """
    assert session.failure is not None
    is_later = bool(session.scenarios) and session.calls > CALLS * len(session.scenarios)
    if session.failure.phase is not FailurePhase.RUN or not is_later:
        return False
    if trial == UNCHANGED:
        return True
    return unchanged is not None and (unchanged.error, unchanged.calls) == (raised, session.calls)


def _is_settled(session: Session) -> bool:
    """Whether no break and no recompilation of a run needs a change."""
    scene = _scene(session)
    slow = {cause.id for cause in scene.causes if {each.what for each in cause.symptoms} & _OF_DYNAMO}
    return not session.limit.hit and slow <= _expected(scene)


_OF_DYNAMO = frozenset((Finding.BREAK, Finding.SKIP, Finding.RECOMPILE))
"""Findings that a trial without the backend shows."""


class _Judged(Struct, frozen=True):
    """A candidate with the result of its trial."""

    candidate: Candidate
    holds: bool | None
    effect: Effect | None
    gone: tuple[str, ...] = ()
    """Ids of the causes that its trial removed."""


def _judged(candidate: Candidate, scene: DiagnosisScene) -> _Judged:
    tried = scene.tried(candidate.trial)
    if tried is None:
        return _Judged(candidate, None, None)
    # It raised, or the model returns something else: whatever it saves is no gain.
    if tried.counts is None or tried.same_results is False:
        return _Judged(candidate, False, None)
    effect = Effect(counts(scene.session), tried.counts)
    if candidate.saves_time:
        times = _compile_times(scene, tried)
        return _Judged(candidate, times is not None and times[1] <= _MUCH_LESS * times[0], effect)
    if scene.session.failure is not None:
        # The original run stopped early, so its counts are too low. A trial that does not raise is an improvement.
        # The failure comes first: that calls no longer raise is what the trial shows.
        raised = [each.id for each in scene.causes if any(one.what is Finding.FAILURE for one in each.symptoms)]
        return _Judged(replace(candidate, causes=tuple(dict.fromkeys((*raised, *candidate.causes)))), True, effect)
    later = _later(scene, tried)
    gone = tuple(cause.id for cause in scene.causes if _is_gone(cause, scene, tried))
    if tried.trial.parts:
        helps = _is_better_place(effect, tried, scene)
    else:
        helps = effect.helps
    # What helps in later calls must not cost anything in the first ones.
    is_later = later > 0 and effect.gain >= 0 and effect.after.breaks <= effect.before.breaks
    if is_later and (helps or not tried.trial.parts):
        return _Judged(replace(candidate, causes=gone or candidate.causes), True, effect, gone)
    if later < 0 or not helps or _is_moved(effect, scene, tried) or not (gone or effect.saves):
        return _Judged(candidate, False, effect)
    return _Judged(replace(candidate, causes=gone or candidate.causes), True, effect, gone)


_MUCH_LESS = 0.75
"""Advice about compile time must save a quarter of it: other processes make times vary."""


def _compile_times(scene: DiagnosisScene, tried: Tried) -> tuple[float, float] | None:
    """Return the compile time without and with a trial's change; None: not measured."""
    before = compile_seconds(scene.session)
    if before is None or tried.compile_seconds is None:
        return None
    return (before, tried.compile_seconds)


_MANY_TIMES = 4
"""A whole that becomes so many times the graphs of its parts is a loop around a network: a choice, not measured."""
_LOOPS = 8
"""The fewest graphs of such a loop: the solvers and samplers measured have 9 to 47, a layer with two branches has 4."""


def _is_better_place(effect: Effect, tried: Tried, scene: DiagnosisScene) -> bool:
    """Whether parts compile with fewer breaks and recompilations than the whole, and not only because they are small.

    Where nothing of the whole is compiled, parts are better as soon as they compile and hit no limit. Ops that only the
    whole had in graphs are the price: more than a few for each break or recompilation less, or an unknown number, pay
    only where the whole becomes many graphs, as the loop of a solver or a sampler does, and where the parts hold most
    parameters: then they are the network, and the ops that are left out are cheap.
    """
    before, after = effect.before, effect.after
    hits_limit = tried.outlook is not None and tried.outlook.limit_hit
    if effect.is_first and after.breaks <= before.breaks and not hits_limit:
        return True
    fewer = after.breaks + after.recompiles < before.breaks + before.recompiles
    helps = fewer and effect.gain > 0 and after.breaks <= before.breaks and after.graphs > 0
    is_loop = before.graphs >= max(_LOOPS, _MANY_TIMES * after.graphs)
    is_network = is_loop and _holds_parameters(tried.trial, scene)
    return helps and (is_network or (effect.keeps_most and _loses_few(effect, scene)))


_OPS_OF_ONE = 5
"""How many more ops outside of graphs undo one graph, break or recompilation less: a choice, not a measurement."""


def _loses_few(effect: Effect, scene: DiagnosisScene) -> bool:
    """Whether a change leaves hardly more ops outside of graphs than what it saves is worth; False: not measured."""
    ops, before, after = scene.session.coverage.ops, effect.before.coverage, effect.after.coverage
    if ops is None or before is None or after is None:
        return False
    return ops * (before - after) / 100 <= _OPS_OF_ONE * effect.gain


def _holds_parameters(trial: Trial, scene: DiagnosisScene) -> bool:
    """Whether the parts of a trial hold most parameters of the target."""
    inside = sum(each.parameters for each in scene.session.parts if each.path in trial.parts)
    # A path without a dot is that of a whole model, which has the parameters of all parts below it.
    whole = sum(each.parameters for each in scene.session.parts if "." not in each.path)
    return 2 * inside > whole


def _later(scene: DiagnosisScene, tried: Tried) -> int:
    """Return by how many recompilations more calls were better than those of the unchanged model; below 0: worse.

    A limit that only one of both hits decides: further calls would run eagerly.
    """
    before, after = later_calls_of(scene.session.trials), tried.outlook
    if after is None or before is None:
        if after is not None and after.limit_hit and not scene.session.limit.hit:
            return -1
        return 0
    if before.limit_hit != after.limit_hit:
        if before.limit_hit:
            return 1
        return -1
    if before.calls == after.calls:
        return before.recompiles - after.recompiles
    return 0


def _is_moved(effect: Effect, scene: DiagnosisScene, tried: Tried) -> bool:
    """Whether a break only moved to another line: it saves no graph, no recompilation, and compiles no more ops."""
    saved = effect.gain - (effect.before.breaks - effect.after.breaks)
    return saved <= 0 < effect.before.graphs and not effect.covers_more and bool(scene.new_breaks(tried))


def _is_gone(cause: RootCause, scene: DiagnosisScene, tried: Tried) -> bool:
    """Whether a trial removed a cause. The trial decides which causes a change fixes, not the rule that offered it."""
    assert tried.counts is not None
    whats = {each.what for each in cause.symptoms}
    if whats <= _OF_DYNAMO and tried.settled:
        return True
    # A trial records neither skipped functions nor what only the backend or a comparison shows.
    if not whats <= _OF_DYNAMO or whats == {Finding.SKIP}:
        return False
    broken = any(line in tried.breaks for each in scene.breaks(cause) for line in lines_of(each))
    return not broken and (Finding.RECOMPILE not in whats or tried.counts.recompiles == 0)


def _ordered(judged: Iterable[_Judged], scene: DiagnosisScene) -> list[Suggestion]:
    """Keep one suggestion per cause: the one that helped most in a trial, or the first that no trial refuted."""
    rank = {cause.id: number for number, cause in enumerate(scene.causes)}
    covered: set[str] = set()
    kept: list[_Judged] = []
    best_first = sorted((_as_a_first_step(each, scene) for each in judged), key=lambda each: -_gain(each))
    for each in best_first:
        causes = set(each.candidate.causes)
        # A run without causes can still get advice, such as on compile time.
        is_covered = bool(scene.causes) and causes <= covered
        if is_covered or not _is_offered(each, scene):
            continue
        covered |= causes
        kept.append(each)
    # Advice to change nothing is only worth a line where it is the whole answer.
    changes = [each for each in kept if not each.candidate.is_no_change]
    suggestions = [_suggestion(each, scene) for each in changes or kept]
    return sorted(suggestions, key=lambda each: _rank(each, rank))


def _is_offered(each: _Judged, scene: DiagnosisScene) -> bool:
    """Whether no trial refuted a change; without a trial, whether it is of a kind that needs none."""
    if each.holds is not None:
        return each.holds
    needs_trial = each.candidate.only_checked or is_edit_of_library(each.candidate, scene)
    return not needs_trial


def _as_a_first_step(each: _Judged, scene: DiagnosisScene) -> _Judged:
    """Keep an edit that removed its breaks and only uncovered the next one, as nothing compiles without it either."""
    found = each.candidate
    tried = scene.tried(found.trial)
    if each.holds is not False or each.effect is None or tried is None or not tried.trial.edits:
        return each
    new = scene.new_breaks(tried)
    breaks = [broken for cause in scene.causes if cause.id in found.causes for broken in scene.breaks(cause)]
    mine = {line for broken in breaks for line in lines_of(broken)}
    if not new or not mine or mine & set(tried.breaks) or each.effect.before != each.effect.after:
        return each
    text = f"{found.text} Alone it changes no count: the next graph break is at {short_place(new[0])}."
    return _Judged(replace(found, text=text, only_checked=False), None, None)


def _suggestion(each: _Judged, scene: DiagnosisScene) -> Suggestion:
    found = each.candidate
    change = found.change or found.trial
    apply = None
    if change is not None:
        apply = apply_of(change, scene.session.listings, scene.session.parts)
    tried, before = scene.tried(found.trial), later_calls_of(scene.session.trials)
    calls = later = compile_time = same = None
    new_breaks: tuple[str, ...] = ()
    if tried is not None:
        calls, new_breaks, same = tried.calls, scene.new_breaks(tried), tried.same_results
        if before is not None and tried.outlook is not None:
            later = before.recompiles, tried.outlook.recompiles
        if found.saves_time:
            compile_time = _compile_times(scene, tried)
    return Suggestion(
        text=found.text,
        causes=found.causes,
        checked=each.holds,
        effect=each.effect,
        general=found.general,
        apply=apply,
        calls=calls,
        later=later,
        rule=found.rule,
        ends_failure=bool(each.holds) and scene.session.failure is not None,
        compile_time=compile_time,
        new_breaks=new_breaks,
        same_results=same,
        optional=each.holds is None and bool(found.causes) and set(found.causes) <= _expected(scene),
    )


def _gain(each: _Judged | Suggestion) -> int:
    """Return how much a trial saved; 0 if it did not run or did not help.

    Where nothing was compiled, what compiles anything goes first: one break less in a function that stays eager changes
    nothing for the user.
    """
    if isinstance(each, _Judged):
        holds = each.holds
    else:
        holds = each.checked
    if not holds or each.effect is None:
        return 0
    if each.effect.is_first:
        return each.effect.before.total + 1
    return max(each.effect.gain, 1)


def _rank(each: Suggestion, rank: dict[str, int]) -> tuple[bool, bool, int, int]:
    costliest = min((rank[id_] for id_ in each.causes), default=len(rank))
    return each.checked is not True, each.general, -_gain(each), costliest


def _with_saved_graphs(causes: tuple[RootCause, ...], advice: tuple[Suggestion, ...]) -> tuple[RootCause, ...]:
    """Set a cause's cost in graphs from a trial of advice on that cause alone."""
    saved = {
        each.causes[0]: max(each.effect.before.graphs - each.effect.after.graphs, 0)
        for each in advice
        if each.checked and each.effect is not None and len(each.causes) == 1
    }
    return tuple(
        replace(cause, cost=replace(cause.cost, graphs=saved[cause.id])) if cause.id in saved else cause
        for cause in causes
    )


def same_results(before: Session, after: Session) -> bool | None:
    """Whether the first eager calls of two runs returned the same; None: not known, as where they draw numbers.

    A trial whose edit changes what a model returns in eager is no advice.
    """
    others = {each.name: each.eager_result for each in after.scenarios}
    found: list[bool | None] = []
    for each in before.scenarios:
        old, new = each.eager_result, others.get(each.name)
        if old is not None and new is not None:
            found += _compared(old, new)
    if False in found:
        return False
    if found and None not in found:
        return True
    return None


def _compared(old: EagerResult, new: EagerResult) -> Iterator[bool | None]:
    # A difference may come from random numbers as well as from the edit.
    is_comparable = old.call == new.call and not (old.drew or new.drew)
    if not is_comparable or [each.where for each in old.parts] != [each.where for each in new.parts]:
        yield None
        return
    for one, other in zip(old.parts, new.parts, strict=True):
        # Python's numbers may be times or identities, which differ from run to run.
        if not (one.is_number and other.is_number):
            yield _is_same(one, other)


def _is_same(old: ResultPart, new: ResultPart) -> bool | None:
    if len(old.numbers) != len(new.numbers) or not old.numbers:
        return None
    if old.numbers == new.numbers:
        return True
    values, others = (list(map(_number, part.numbers)) for part in (old, new))
    if not all(map(math.isfinite, (*values, *others))):
        return False
    scale = max(map(abs, (*values, *others)))
    apart = max(abs(one - other) for one, other in zip(values, others, strict=True))
    if apart > _OTHER * scale:
        return False
    if apart <= _EQUAL * scale:
        return True
    return None


def _number(text: str) -> float:
    """Read a number; what a damaged log has instead is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
