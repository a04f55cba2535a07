"""Which sites the policy lets pass, and which of its entries are of no use any more."""

from collections.abc import Iterable, Iterator
from datetime import date
from fnmatch import fnmatchcase

from ctrace.inspector.gate.model import SiteKey
from ctrace.inspector.gate.policy.model import Allow


def allows(allow: Allow, site: SiteKey) -> bool:
    """Whether an entry is about a site; all that it says must fit."""
    fits = []
    if allow.gb is not None:
        fits.append(allow.gb in site.causes)
    if allow.place is not None:
        pattern = allow.place.replace("[", "[[]")
        fits.append(any(fnmatchcase(site.place, each) for each in (pattern, f"*/{pattern}")))
    if allow.text is not None:
        part = _unspaced(allow.text)
        fits.append(bool(part) and part in _unspaced(site.text))
    return bool(fits) and all(fits)


def allowing(entries: Iterable[Allow], site: SiteKey, today: date) -> Allow | None:
    """Find the entry that lets a site pass today."""
    return next((each for each in entries if allows(each, site) and not has_expired(each, today)), None)


def has_expired(allow: Allow, today: date) -> bool:
    """Whether the last day of an entry has gone by."""
    return allow.expires is not None and allow.expires < today


def useless(entries: Iterable[Allow], sites: Iterable[SiteKey], today: date, *, are_all: bool = True) -> Iterator[str]:
    """Say of which entries the day has gone by, and which match nothing; the latter only where sites `are_all`."""
    seen = list(sites)
    for each in entries:
        matches = any(allows(each, site) for site in seen)
        if has_expired(each, today):
            rest = ": what it is about is still there" if matches else ": nothing matches it; remove it"
            yield f"{_named(each)} expired on {each.expires}{rest if matches or are_all else ''}"
        elif are_all and not matches:
            yield f"{_named(each)} matches nothing any more; remove it"


def _unspaced(text: str) -> str:
    """Leave out what the one spelling of a statement has in another way than its author wrote it."""
    return "".join(text.split()).replace('"', "'")


def _named(allow: Allow) -> str:
    what = " ".join(each for each in (allow.gb, allow.place, allow.text and f"`{allow.text}`") if each)
    return f"the allow entry in line {allow.line} ({what})"
