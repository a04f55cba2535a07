"""Find the sites that the policy allows, and the entries of the policy that are no longer needed."""

from collections.abc import Iterable, Iterator
from datetime import date
from fnmatch import fnmatchcase

from ctrace.inspector.facts.sites import SiteKey
from ctrace.inspector.features.check.policy.policy_model import Allow


def allows(allow: Allow, site: SiteKey) -> bool:
    """Whether a site matches every field that an entry sets."""
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
    """Find the first entry that matches a site and has not expired."""
    return next((each for each in entries if allows(each, site) and not has_expired(each, today)), None)


def has_expired(allow: Allow, today: date) -> bool:
    """Whether an entry has expired."""
    return allow.expires is not None and allow.expires < today


def useless(entries: Iterable[Allow], sites: Iterable[SiteKey], today: date, *, are_all: bool = True) -> Iterator[str]:
    """Yield notes on expired entries and, if `are_all` sites are there, on entries that match none of them."""
    seen = list(sites)
    for each in entries:
        matches = any(allows(each, site) for site in seen)
        if has_expired(each, today):
            rest = ": its site still exists" if matches else ": nothing matches it; remove it"
            yield f"{_named(each)} expired on {each.expires}{rest if matches or are_all else ''}"
        elif are_all and not matches:
            yield f"{_named(each)} no longer matches anything; remove it"


def _unspaced(text: str) -> str:
    """Remove spaces and unify quotes, which the normalization of a statement changes."""
    return "".join(text.split()).replace('"', "'")


def _named(allow: Allow) -> str:
    what = " ".join(each for each in (allow.gb, allow.place, allow.text and f"`{allow.text}`") if each)
    return f"the allow entry in line {allow.line} ({what})"
