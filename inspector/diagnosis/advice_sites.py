"""Name the sites of a session, each with the advice of every other view, so that they keep their identity when code
moves.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.root_causes import lead_of
from ctrace.inspector.diagnosis.sentences import advice_lines
from ctrace.inspector.facts.accuracy_facts import Culprit
from ctrace.inspector.facts.diagnosis import Finding, Symptom
from ctrace.inspector.facts.findings import Break, BreakKind, Cost, Danger, Owner, Recompile, Skip, UserLine
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.findings.culprits import named_in, remedied
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.relative_paths import relative_path
from ctrace.inspector.source.statements import qualified_name, start_of, statement

_OF_SIZES = frozenset(("size", "range", "zero_one", "duck_shape", "stride", "argument_value", "aliasing"))
"""Kinds of causes that guards on symbols can have; a guard on several sizes is a `range`."""


def sites_of(session: Session, root: Path, *, warm_up: bool = False) -> tuple[Site, ...]:
    """Return the sites of a session, with paths relative to `root`; `warm_up` adds the recompilations of warm-up."""
    found = diagnose(session)
    leads = {each: lead_of(cause, session) for cause in found.causes for each in cause.symptoms}
    sites = _Sites(session, root, advice_lines(found), leads)
    return tuple(_merged(sites.every(warm_up=warm_up), session.listings))


def is_after_warm_up(recompile: Recompile) -> bool:
    """Whether a recompilation would also happen to a model in production.

    A repeated call of a scenario should reuse its graph, so a recompilation there counts. The first call may need
    another graph, such as when a size changes for the first time; there, only unexpected recompilations count.
    """
    return not recompile.expected or (recompile.call is not None and recompile.call > 0)


def may_be_by_inductor(recompile: Recompile, session: Session) -> bool:
    """Whether the call violated a guard on a size or number of a graph to which Inductor added guards."""
    # Without guard records, torch's own reason names one entry only.
    entries = recompile.distances or dict.fromkeys(filter(None, [recompile.nearest]))
    of_sizes = any(cause.kind in _OF_SIZES for cause in recompile.causes)
    return of_sizes and any(session.inductor_guards.get(each) for each in entries)


def _merged(sites: Iterable[Site], listings: Mapping[str, str]) -> Iterator[Site]:
    """Merge sites with the same key, and add up their times and costs.

    The same statement may occur at several places in a function. All lines of one statement are one place, so that its
    layout does not matter.
    """
    by_key: dict[SiteKey, list[Site]] = {}
    for site in sites:
        by_key.setdefault(site.key, []).append(site)
    for same in by_key.values():
        places = {(each.file, start_of(listings, each.file, each.line, each.span)) for each in same}
        times = sum(each.times for each in same)
        cost, by_inductor = _together([each.cost for each in same]), any(each.by_inductor for each in same)
        yield replace(same[0], times=times, cost=cost, places=len(places), by_inductor=by_inductor)


def _together(costs: list[Cost]) -> Cost:
    ops = [cost.ops for cost in costs if cost.ops is not None]
    return Cost(sum(ops) if ops else None, sum(cost.graphs for cost in costs))


class _Sites(Struct, frozen=True):
    """Finds the sites of a session."""

    session: Session
    root: Path
    advice: Mapping[Symptom, str]
    """The advice of every other view on the same findings."""
    leads: Mapping[Symptom, Symptom]
    """The finding that leads the root cause of each finding."""

    def every(self, *, warm_up: bool = False) -> Iterator[Site]:
        """Yield the sites of all kinds; `warm_up` includes the recompilations that happen only once."""
        # First, since what follows names the break that it follows.
        breaks = list(self._breaks())
        yield from (self._following(site, finding, breaks) for finding, site in breaks)
        yield from self._advised(map(self._skip, self.session.skips), Finding.SKIP)
        again = zip(self.session.recompiles, map(self._recompile, self.session.recompiles), strict=True)
        for index, (recompile, site) in enumerate(again):
            if warm_up or is_after_warm_up(recompile):
                finding = Symptom(Finding.RECOMPILE, index)
                yield self._following(self._with_advice(site, finding), finding, breaks)
        yield from self._advised(map(self._danger, self.session.dangers), Finding.DANGER)
        accuracy = self.session.accuracy
        yield from map(self._culprit, accuracy.culprits if accuracy is not None else ())

    def _advised(self, sites: Iterable[Site], what: Finding) -> Iterator[Site]:
        """Yield the sites of all findings of a kind, in their order, with the advice on each."""
        for index, site in enumerate(sites):
            yield self._with_advice(site, Symptom(what, index))

    def _with_advice(self, site: Site, finding: Symptom) -> Site:
        return replace(site, fix=self.advice.get(finding, site.fix))

    def _following(self, site: Site, finding: Symptom, breaks: list[tuple[Symptom, Site]]) -> Site:
        """Name the break that leads the site's root cause, unless it breaks at another line than that one."""
        lead = self.leads.get(finding, finding)
        if lead == finding:
            return site
        leading = [each for of, each in breaks if of == lead and each.key != site.key]
        if finding.what is Finding.BREAK:
            leading = [each for each in leading if (each.file, each.line) == (site.file, site.line)]
        if leading:
            return replace(site, follows=leading[0].key)
        return site

    def _place(self, file: str, line: int, function: str) -> str:
        name = qualified_name(self.session.listings, file, line, function)
        return f"{relative_path(file, self.root, self.session.environment.prefixes)}::{name}"

    def _owner(self, file: str) -> Owner:
        return owner_of(file, self.session.environment.prefixes)

    def _at(self, file: str, line: int, key: SiteKey) -> Site:
        """Create a site; for a file of another machine, read the file at the same path below the root, if it exists."""
        # Not splitlines, which ends lines at a form feed as well: Python does not count those.
        lines = self.session.listings.get(file, "").split("\n")
        source = ""
        if 0 < line <= len(lines):
            source = lines[line - 1].rstrip("\r")
        here = self.root / key.place.partition("::")[0]
        return Site(key, file=str(here) if here.is_file() else file, line=line, source=source)

    def _breaks(self) -> Iterator[tuple[Symptom, Site]]:
        """Yield a site for each line of the user's code with breaks, whichever lines of a library they are at.

        Its first break is with it.

        A lock compares what its user can change, and does not change with a library's lines.
        """
        found: dict[tuple[object, ...], list[tuple[Break, UserLine]]] = {}
        first: dict[tuple[object, ...], int] = {}
        for index, each in enumerate(self.session.breaks):
            for line in each.user_lines:
                # With the span, since two calls of one line may break.
                key = each.kind, each.gb, line.at.file, line.at.line, line.at.span, line.owner
                found.setdefault(key, []).append((each, line))
                first.setdefault(key, index)
        for same, index in zip(found.values(), first.values(), strict=True):
            finding = Symptom(Finding.BREAK, index)
            yield finding, self._with_advice(self._break(same), finding)

    def _break(self, same: list[tuple[Break, UserLine]]) -> Site:
        first, line = same[0]
        at = line.at
        if first.kind is BreakKind.DISABLED:
            kind = SiteKind.DISABLED
        else:
            kind = SiteKind.BREAK
        text = statement(self.session.listings, at.file, at.line, at.source, at.span)
        place = self._place(at.file, at.line, at.function)
        found = self._at(at.file, at.line, SiteKey(kind, tuple(sorted(first.gb)), line.owner, place, text))
        # The cost of a break counts once, for the first line that leads to it.
        cost = _together([each.cost for each, line in same if line == each.user_lines[0]])
        times = self._times(same)
        return replace(found, times=times, span=at.span, reason=first.reason, fix=first.fix, cost=cost)

    def _times(self, same: list[tuple[Break, UserLine]]) -> int:
        """Count the compilations of the function itself that hit a break.

        A caller that inlines the function hits the break first, but does not count: a decorator, or code that moves
        into a separate function, changes the number of such callers. The number of graphs shows a new caller, because
        the break splits it, too.
        """
        at = same[0][1].at
        function = self._place(at.file, at.line, at.function)
        made = {each.id: each for each in self.session.compilations}
        ids = dict.fromkeys(id_ for _, line in same for id_ in line.compilations)
        own = [made[id_] for id_ in ids if id_ in made]
        own_times = sum(self._place(each.file, each.line, each.function) == function for each in own)
        # A function that is only inlined has no compilation; then its callers are all there is to count.
        return own_times or sum(line.times for _, line in same)

    def _skip(self, skip: Skip) -> Site:
        if skip.break_index is not None:
            cause = self.session.breaks[skip.break_index].gb
        else:
            cause = (skip.rule or "skip",)
        place = self._place(skip.file, skip.line, skip.function)
        key = SiteKey(SiteKind.SKIP, tuple(sorted(cause)), self._owner(skip.file), place, f"def {skip.function}")
        return replace(self._at(skip.file, skip.line, key), reason=skip.reason, fix=skip.fix, cost=skip.cost)

    def _recompile(self, recompile: Recompile) -> Site:
        kinds = tuple(sorted({cause.kind for cause in recompile.causes})) or ("other",)
        # Sorted, as the order of causes is that of guards, which another guard may change.
        what = ", ".join(sorted({cause.subject for cause in recompile.causes}))
        place = self._place(recompile.file, recompile.line, recompile.function)
        key = SiteKey(SiteKind.RECOMPILE, kinds, self._owner(recompile.file), place, what)
        first = None
        if recompile.causes:
            first = recompile.causes[0]
        if first and first.file and first.line:
            at = (first.file, first.line)
        else:
            at = (recompile.file, recompile.line)
        reason, fix = (first.reason, first.fix) if first else (recompile.reason, "")
        by_inductor = may_be_by_inductor(recompile, self.session)
        return replace(self._at(*at, key), reason=reason or recompile.reason, fix=fix, by_inductor=by_inductor)

    def _culprit(self, culprit: Culprit) -> Site:
        """Name an operation with its dtype: another dtype has kernels of its own."""
        file, line = culprit.file or "", culprit.line or 0
        causes = (culprit.dtype or "unknown dtype", *(culprit.ops or (culprit.name,)))
        if file:
            place = self._place(file, line, culprit.function or "")
            text = statement(self.session.listings, file, line, culprit.source)
        else:
            place = "::"
            text = ""
        key = SiteKey(SiteKind.CULPRIT, causes, self._owner(file), place, text)
        found = self._at(file, line, key)
        return replace(found, source=found.source or culprit.source, reason=named_in(culprit), fix=remedied(culprit))

    def _danger(self, danger: Danger) -> Site:
        file, line = danger.file or "", danger.line or 0
        place = "::"
        if file:
            place = self._place(file, line, "")
        key = SiteKey(SiteKind.DANGER, (danger.kind,), self._owner(file), place, danger.subject)
        why = danger.why or danger.difference
        return replace(self._at(file, line, key), times=danger.calls, reason=why, fix=danger.fix)
