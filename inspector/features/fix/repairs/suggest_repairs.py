"""Search for proved repairs of the sites of one target.

A repair's change of files is given as replacements of whole lines, as SARIF and code review describe it.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.diagnosis import Replacement, RootCause, SuggestedRepair
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.facts.trial import NewText, Trial
from ctrace.inspector.features.fix.repairs.fixing import Fixing, RepairChoice, Say
from ctrace.inspector.features.fix.repairs.proving import scene_of
from ctrace.inspector.features.fix.repairs.repair_result import Fixes, TriedRepair, base_of
from ctrace.inspector.features.fix.repairs.trial_runs import (
    FailedTrialError,
    InterruptedTrialError,
    Runner,
    SearchBudget,
)
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.target import resolve

_TIMES_AS_LONG = 5.0
"""A trial may take this many times the run that it changes: it may compile more."""
_LEAST_LIMIT = 60.0
"""Seconds of a trial, however short the run: a new process imports torch."""
_NO_TIME = "no time was left to look for a repair"
INTERRUPTED = "the search was interrupted"
"""Why there is no repair after Ctrl-C."""
Command = Callable[[TriedRepair, Site], str]
"""Writes the command that shows a repair."""


class RepairSearch(Struct, frozen=True):
    """The search for repairs of one target."""

    target: str
    """What to run, in the form that `ctrace explain` accepts."""
    options: Options
    session: Session | None
    """What an earlier run of the target recorded; None: the search begins with a run."""
    budget: SearchBudget
    command: Command
    """Writes the command that shows a repair."""
    say: Say
    """Reports progress."""
    seed: int | None = None
    """What the generators of random numbers start with if there is no earlier run."""

    def suggestions(self, sites: list[Site]) -> dict[SiteKey, SuggestedRepair]:
        """Return one suggestion for each site."""
        if self.budget.is_spent:
            return {each.key: SuggestedRepair(why=_NO_TIME) for each in sites}
        try:
            fixes = self._fixes(sites)
        except (InterruptedTrialError, KeyboardInterrupt):
            return {each.key: SuggestedRepair(why=INTERRUPTED) for each in sites}
        except (CtraceError, FailedTrialError) as error:
            return {each.key: SuggestedRepair(why=str(error)) for each in sites}
        return {each.key: self._suggestion(each, fixes) for each in sites}

    def _fixes(self, sites: list[Site]) -> Fixes:
        """Search for repairs of the causes at some sites.

        Raises:
            CtraceError: the target is gone.
            FailedTrialError: it cannot be run again.
            InterruptedTrialError: Ctrl-C.
        """
        resolved = resolve(self.target, has_inputs=bool(self.options.inputs))
        session = self.session
        total = None
        if session is not None:
            total = session.time.total
        limit = max(_LEAST_LIMIT, _TIMES_AS_LONG * (total or 0.0))
        options = replace(self.options, gpu=None, build=False)
        path = None
        if resolved.path is not None:
            path = str(resolved.path.resolve())
        if session is not None:
            seed = session.environment.seed
        else:
            seed = self.seed
        with Runner(resolved, options, limit, self.budget, seed=seed) as runner:
            session = session or runner.capture(Trial())
            scene = scene_of(session)
            ids = tuple(dict.fromkeys(cause.id for site in sites for cause in causes_at(site, session, scene.causes)))
            if not ids:
                return Fixes(session, scene.causes)
            choice = RepairChoice(findings=ids)
            return Fixing(session, runner, self.budget, target=path, choice=choice, say=self.say).run()

    def _suggestion(self, site: Site, fixes: Fixes) -> SuggestedRepair:
        ids = {each.id for each in causes_at(site, fixes.session, fixes.findings)}
        proved = [each for each in fixes.repairs if each.proved and ids & {each.finding, *each.findings}]
        combined = fixes.combined
        free = [each for each in proved if each.is_free and not each.library]
        taken = set()
        if combined is not None:
            taken = {(step.name, step.summary) for step in combined.steps}
        # Only the combination ran through Inductor.
        together = [each for each in free if (each.name, each.summary) in taken]
        if together and combined is not None and not combined.outcome.proved:
            return SuggestedRepair(repair=together[0].name, summary=together[0].summary, why=combined.outcome.why)
        if together or proved:
            chosen = (together or free or proved)[0]
            if together and combined is not None:
                note = combined.outcome.note
            else:
                note = chosen.outcome.note
            return self._proved(chosen, site, fixes, note)
        return _unproved(ids, fixes)

    def _proved(self, each: TriedRepair, site: Site, fixes: Fixes, note: str) -> SuggestedRepair:
        ready = not each.question and not each.library
        return SuggestedRepair(
            each.name,
            each.kind,
            each.summary,
            proved=True,
            note=note,
            question=each.question,
            library=each.library,
            how=each.how,
            command=self.command(each, site),
            patch=each.patch,
            # A reviewer applies these with one click, so they are only of what asks nothing and changes the
            # user's own files.
            replacements=replacements(base_of(fixes), each.files) if ready else (),
        )


def _unproved(ids: set[str], fixes: Fixes) -> SuggestedRepair:
    """Say what was tried for some causes, and why it is not proved."""
    tried = [each for each in fixes.repairs if each.finding in ids]
    if fixes.unstable:
        return SuggestedRepair(why=f"nothing can be proved: {fixes.unstable}")
    if fixes.interrupted:
        return SuggestedRepair(why=INTERRUPTED)
    if tried:
        best = tried[0]
        return SuggestedRepair(best.name, best.kind, best.summary, why=best.outcome.why)
    return SuggestedRepair(why=_NO_TIME if fixes.budget_spent else "ctrace knows no repair for it")


_LISTS: Mapping[SiteKind, tuple[str, ...]] = {
    SiteKind.BREAK: ("break",),
    SiteKind.DISABLED: ("break",),
    SiteKind.SKIP: ("skip",),
    SiteKind.RECOMPILE: ("recompile",),
    SiteKind.DANGER: ("danger",),
    SiteKind.CULPRIT: ("danger",),
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
    # One of the two may be a path through a link. Resolving asks the file system, so only where the line fits.
    return place[1] == site.line and (place[0] == site.file or _same(place[0], site.file))


def _same(one: str, other: str) -> bool:
    return os.path.realpath(Path(one)) == os.path.realpath(Path(other))


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line of a file as editors count lines; `str.splitlines` also ends one at a form feed."""


def replacements(base: Mapping[str, str], files: Iterable[NewText]) -> tuple[Replacement, ...]:
    """Return what changes in the files, from the top of each to its end."""
    return tuple(one for each in files for one in _of_file(each.file, base[each.file], each.text))


def _of_file(file: str, before: str, after: str) -> Iterator[Replacement]:
    old, new = _LINE.findall(before), _LINE.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, begin, end, first, last in matcher.get_opcodes():
        if tag != "equal":
            above = ""
            if begin:
                above = old[begin - 1]
            yield Replacement(file, begin + 1, end + 1, "".join(old[begin:end]), "".join(new[first:last]), before=above)
