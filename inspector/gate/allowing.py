"""Which sites the policy lets pass, and which of its entries are of no use any more."""

from collections.abc import Iterable, Iterator
from datetime import date
from fnmatch import fnmatchcase

from ctrace.inspector.gate.model import Allow, SiteKey


def allows(allow: Allow, site: SiteKey) -> bool:
    """Whether an entry is about a site; all that it says must fit."""
    fits = []
    if allow.gb is not None:
        fits.append(allow.gb in site.causes)
    if allow.place is not None:
        fits.append(any(fnmatchcase(site.place, pattern) for pattern in (allow.place, f"*/{allow.place}")))
    if allow.text is not None:
        fits.append(" ".join(allow.text.split()) in " ".join(site.text.split()))
    return bool(fits) and all(fits)


def allowing(entries: Iterable[Allow], site: SiteKey, today: date) -> Allow | None:
    """Find the entry that lets a site pass today."""
    return next((each for each in entries if allows(each, site) and not has_expired(each, today)), None)


def has_expired(allow: Allow, today: date) -> bool:
    """Whether the last day of an entry has gone by."""
    return allow.expires is not None and allow.expires < today


def useless(entries: Iterable[Allow], sites: Iterable[SiteKey], today: date) -> Iterator[str]:
    """Say of which entries the day has gone by, and which match nothing."""
    seen = list(sites)
    for each in entries:
        matches = any(allows(each, site) for site in seen)
        if has_expired(each, today):
            rest = "what it is about is still there" if matches else "nothing matches it; remove it"
            yield f"{_named(each)} expired on {each.expires}: {rest}"
        elif not matches:
            yield f"{_named(each)} matches nothing any more; remove it"


def _named(allow: Allow) -> str:
    what = " ".join(each for each in (allow.gb, allow.place, allow.text and f"`{allow.text}`") if each)
    return f"the allow entry in line {allow.line} ({what})"
