"""Compare breaks, skips, recompilations and wrong results, matched as the gate matches them."""

from collections.abc import Iterator
from pathlib import Path

from ctrace.inspector.diagnosis.advice_sites import sites_of
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.features.compare.changes import Change, ChangeKind, What, edited
from ctrace.inspector.findings.site_matching import matched
from ctrace.inspector.source.relative_paths import relative_path
from ctrace.inspector.source.statements import put_aside_names, put_aside_roots

_WHAT = {
    SiteKind.BREAK: What.BREAK,
    SiteKind.DISABLED: What.BREAK,
    SiteKind.SKIP: What.SKIP,
    SiteKind.RECOMPILE: What.RECOMPILE,
    SiteKind.DANGER: What.ACCURACY,
    SiteKind.CULPRIT: What.ACCURACY,
}


def root_of(session: Session) -> Path:
    """Return the folder that a run's paths are relative to: its working directory, else this process's."""
    return Path(session.environment.cwd or Path.cwd())


def place(session: Session, file: str, line: int | None) -> str:
    """Write `file:line`, with the file relative to the run's folder."""
    short = relative_path(file, root_of(session), session.environment.prefixes) if file else "?"
    return f"{short}:{line}" if line else short


def site_changes(before: Session, after: Session) -> Iterator[Change]:
    """Yield the sites that appeared, disappeared or changed."""
    olds = {site.key: site for site in sites_of(before, root_of(before), warm_up=True)}
    found = matched(
        sites_of(after, root_of(after), warm_up=True), [Known(site.key, site.times) for site in olds.values()]
    )
    for key in found.gone:
        old = olds[key.key]
        yield Change(_WHAT[old.key.kind], ChangeKind.REMOVED, _where(before, old), was=_described(old))
    for new, known in found.pairs:
        yield from _changed(after, olds[known.key], new)
    for new in found.new:
        yield Change(_WHAT[new.key.kind], ChangeKind.ADDED, _where(after, new), now=_described(new))


def _changed(after: Session, old: Site, new: Site) -> Iterator[Change]:
    """Yield a change if the code of a site was edited, or if a function recompiled more or less often there."""
    is_more = new.key.kind is SiteKind.RECOMPILE and old.times != new.times
    if is_more or _content(old.key) != _content(new.key):
        yield edited(_WHAT[new.key.kind], _where(after, new), _described(old), _described(new))


def _content(key: SiteKey) -> str:
    if key.kind is SiteKind.RECOMPILE:
        return put_aside_roots(key.text)
    return put_aside_names(key.text)


def _where(session: Session, site: Site) -> str:
    if site.file:
        return place(session, site.file, site.line)
    return site.key.place


def _described(site: Site) -> str:
    """Write a site's content: its statement or what changed, then torch's ids or the kinds of causes."""
    times = f", {site.times} times" if site.key.kind is SiteKind.RECOMPILE and site.times > 1 else ""
    return f"{site.key.text} ({', '.join(site.key.causes)}{times})"
