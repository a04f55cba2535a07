"""Search for proved repairs of the findings of a check, one search for each model that has some."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.features.check.model import Job, JobKey, Site, SiteKey, SiteKind
from ctrace.inspector.features.check.suggestion import Suggestion
from ctrace.inspector.features.check.verdict import Checked, Outcome
from ctrace.inspector.features.fix.repairs.findings import scene_of
from ctrace.inspector.features.fix.repairs.fixing import Fixing, RepairChoice, Say
from ctrace.inspector.features.fix.repairs.replacing import replacements
from ctrace.inspector.features.fix.repairs.result import Fixes, Tried, base_of
from ctrace.inspector.features.fix.repairs.running import Budget, FailedTrialError, InterruptedTrialError, Runner
from ctrace.inspector.runs.target import resolve

_TIMES_AS_LONG = 5.0
_LEAST_LIMIT = 60.0
_NO_TIME = "no time was left to look for a repair"
_INTERRUPTED = "the search was interrupted"
Command = Callable[[Job, Tried, Site], str]
"""Writes the command that shows a repair."""


def with_suggestions(
    outcome: Outcome,
    jobs: Mapping[JobKey, Job],
    saved: Callable[[str], Session | None],
    budget: Budget,
    command: Command,
    say: Say,
) -> Outcome:
    """Add to each finding at a site a proved repair, or why none is proved.

    Args:
        outcome: the check.
        jobs: its jobs, to run their models again.
        saved: reads a saved run by name; None: it cannot be read.
        budget: the time for all searches together.
        command: writes the command that shows a repair.
        say: reports progress.
    """
    found: dict[SiteKey, Suggestion] = {}
    for one in outcome.checked:
        sites = [each.site for each in one.findings if each.site is not None and each.site.key not in found]
        if any(each.why == _INTERRUPTED for each in found.values()):
            found |= {each.key: Suggestion(why=_INTERRUPTED) for each in sites}
        elif sites and one.job in jobs:
            found |= _Search(jobs[one.job], one, saved, budget, command, say).suggestions(sites)
    return replace(outcome, checked=tuple(_suggested(one, found) for one in outcome.checked))


def _suggested(one: Checked, found: Mapping[SiteKey, Suggestion]) -> Checked:
    findings = tuple(
        replace(each, suggestion=found[each.site.key]) if each.site is not None and each.site.key in found else each
        for each in one.findings
    )
    return replace(one, findings=findings)


class _Search:
    """The search for one job."""

    def __init__(
        self,
        job: Job,
        checked: Checked,
        saved: Callable[[str], Session | None],
        budget: Budget,
        command: Command,
        say: Say,
    ) -> None:
        self._job = job
        self._checked = checked
        self._saved = saved
        self._budget = budget
        self._command = command
        self._say = lambda what: say(f"{job.key}: {what}")

    def suggestions(self, sites: list[Site]) -> dict[SiteKey, Suggestion]:
        """Return one suggestion for each site."""
        if self._budget.is_spent:
            return {each.key: Suggestion(why=_NO_TIME) for each in sites}
        try:
            fixes = self._fixes(sites)
        except (InterruptedTrialError, KeyboardInterrupt):
            return {each.key: Suggestion(why=_INTERRUPTED) for each in sites}
        except (CtraceError, FailedTrialError) as error:
            return {each.key: Suggestion(why=str(error)) for each in sites}
        return {each.key: self._suggestion(each, fixes) for each in sites}

    def _fixes(self, sites: list[Site]) -> Fixes:
        """Search for repairs of the causes at some sites.

        Raises:
            CtraceError: the target is gone.
            FailedTrialError: it cannot be run again.
            InterruptedTrialError: Ctrl-C.
        """
        job = self._job
        resolved = resolve(job.target, has_inputs=bool(job.options.inputs))
        session = self._saved(self._checked.run) if self._checked.run is not None else None
        total = session.time.total if session is not None else None
        limit = max(_LEAST_LIMIT, _TIMES_AS_LONG * (total or 0.0))
        options = replace(job.options, target=None, build=False)
        path = str(resolved.path.resolve()) if resolved.path is not None else None
        seed = session.environment.seed if session is not None else None
        with Runner(resolved, options, limit, self._budget, seed=seed) as runner:
            session = session or runner.capture(Trial())
            scene = scene_of(session)
            ids = tuple(dict.fromkeys(cause.id for site in sites for cause in causes_at(site, session, scene.causes)))
            if not ids:
                return Fixes(session, scene.causes)
            choice = RepairChoice(findings=ids)
            return Fixing(session, runner, self._budget, target=path, choice=choice, say=self._say).run()

    def _suggestion(self, site: Site, fixes: Fixes) -> Suggestion:
        ids = {each.id for each in causes_at(site, fixes.session, fixes.findings)}
        proved = [each for each in fixes.repairs if each.proved and ids & {each.finding, *each.findings}]
        combined = fixes.combined
        free = [each for each in proved if each.is_free and not each.library]
        taken = {(step.name, step.summary) for step in combined.steps} if combined is not None else set()
        # Only the combination ran through Inductor.
        together = [each for each in free if (each.name, each.summary) in taken]
        if together and combined is not None and not combined.outcome.proved:
            return Suggestion(repair=together[0].name, summary=together[0].summary, why=combined.outcome.why)
        if together or proved:
            chosen = (together or free or proved)[0]
            note = combined.outcome.note if together and combined is not None else chosen.outcome.note
            return self._proved(chosen, site, fixes, note)
        return _unproved(ids, fixes)

    def _proved(self, each: Tried, site: Site, fixes: Fixes, note: str) -> Suggestion:
        ready = not each.question and not each.library
        return Suggestion(
            each.name,
            each.kind,
            each.summary,
            proved=True,
            note=note,
            question=each.question,
            library=each.library,
            how=each.how,
            command=self._command(self._job, each, site),
            patch=each.patch,
            replacements=replacements(base_of(fixes), each.files) if ready else (),
        )


def _unproved(ids: set[str], fixes: Fixes) -> Suggestion:
    """Say what was tried for some causes, and why it is not proved."""
    tried = [each for each in fixes.repairs if each.finding in ids]
    if fixes.unstable:
        return Suggestion(why=f"nothing can be proved: {fixes.unstable}")
    if fixes.interrupted:
        return Suggestion(why=_INTERRUPTED)
    if tried:
        best = tried[0]
        return Suggestion(best.name, best.kind, best.summary, why=best.outcome.why)
    return Suggestion(why=_NO_TIME if fixes.budget_spent else "ctrace knows no repair for it")


_LISTS: Mapping[SiteKind, tuple[str, ...]] = {
    SiteKind.BREAK: ("break",),
    SiteKind.DISABLED: ("break",),
    SiteKind.SKIP: ("skip",),
    SiteKind.RECOMPILE: ("recompile",),
    SiteKind.DANGER: ("danger",),
}


def causes_at(site: Site, session: Session, causes: Iterable[RootCause]) -> Iterator[RootCause]:
    """Yield the root causes with a symptom at a site."""
    for cause in causes:
        if any(
            str(symptom.what) in _LISTS[site.key.kind] and _is_at(site, place)
            for symptom in cause.symptoms
            for place in _places(session, str(symptom.what), symptom.index)
        ):
            yield cause


def _places(session: Session, what: str, index: int) -> Iterator[tuple[str, int]]:
    match what:
        case "break":
            yield session.breaks[index].file, session.breaks[index].line
        case "skip":
            yield session.skips[index].file, session.skips[index].line
        case "recompile":
            recompile = session.recompiles[index]
            yield recompile.file, recompile.line
            yield from ((each.file, each.line) for each in recompile.causes if each.file and each.line)
        case "danger":
            danger = session.dangers[index]
            yield danger.file or "", danger.line or 0


def _is_at(site: Site, place: tuple[str, int]) -> bool:
    return place[1] == site.line and (place[0] == site.file or _same(place[0], site.file))


def _same(one: str, other: str) -> bool:
    return os.path.realpath(Path(one)) == os.path.realpath(Path(other))
