"""One line of a lock: JSON with the counts of a job, or a site."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.sites import Known, SiteKey, SiteKind
from ctrace.inspector.features.check.model import JobKey
from ctrace.inspector.features.check.policy.model import Count
from ctrace.inspector.knowledge.gpus.yaml_file import near, shown

Counts = Mapping[Count, int]
_JOB = ("model", "scenario", "target")
_SITE = ("owner", "place", "text", "times")
_DIGITS = 18


class Record(Struct, frozen=True):
    """The content of one line."""

    job: JobKey
    holds: Counts | Known

    @property
    def key(self) -> tuple[JobKey, SiteKey | None]:
        """Return what identifies the record; a lock has no two records with the same identity."""
        return self.job, self.holds.key if isinstance(self.holds, Known) else None


def record_line(job: JobKey, holds: Counts | Known) -> str:
    """Return a record as text; invisible characters are escaped, so that no tool sees a line end in it."""
    about = {"model": job.model, "scenario": job.scenario, "target": job.target}
    text = json.dumps({**about, **(_site(holds) if isinstance(holds, Known) else _counts(holds))}, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _counts(counts: Counts) -> dict[str, Any]:
    return {"counts": {count: counts[count] for count in Count if count in counts}}


def _site(known: Known) -> dict[str, Any]:
    key = known.key
    return {key.kind: key.causes, "owner": key.owner, "place": key.place, "text": key.text, "times": known.times}


def read_record(line: str) -> Record:
    """Parse a record.

    Raises:
        ValueError: it is not a record; the message says why.
    """
    data = _parsed(line)
    job = JobKey(*(_text(data, key) for key in _JOB))
    kinds = [kind for kind in SiteKind if kind in data]
    if len(kinds) + ("counts" in data) != 1:
        raise ValueError(f"a record needs one of counts, {', '.join(SiteKind)}")
    if not kinds:
        _refuse_unknown(data, (*_JOB, "counts"))
        return Record(job, _read_counts(data["counts"]))
    _refuse_unknown(data, (*_JOB, kinds[0], *_SITE))
    return Record(job, _read_site(kinds[0], data))


def _read_counts(data: object) -> Counts:
    if not isinstance(data, dict):
        raise ValueError("counts is not a table")  # noqa: TRY004 (of a text, not of a call)
    _refuse_unknown(data, tuple(Count))
    return {count: _number(data[count], count, 0) for count in Count if count in data}


def _read_site(kind: SiteKind, data: Mapping[str, Any]) -> Known:
    causes, owner = data[kind], _text(data, "owner")
    if not isinstance(causes, list) or not all(isinstance(each, str) for each in causes):
        raise ValueError(f"{kind} is not a list of texts")
    if owner not in tuple(Owner):
        raise ValueError(f"there is no owner {shown(owner)}: {near(owner, Owner)}")
    key = SiteKey(kind, tuple(causes), Owner(owner), _text(data, "place"), _text(data, "text"))
    return Known(key, _number(data.get("times"), "times", 1))


def _parsed(line: str) -> dict[str, Any]:
    try:
        data = json.loads(line, object_pairs_hook=_once, parse_int=_whole)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("this is neither a JSON record nor a [torch ...] line") from None
    if not isinstance(data, dict):
        raise ValueError("a record must be a JSON object")  # noqa: TRY004 (of a text, not of a call)
    return data


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("a number is too long")
    return int(digits)


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown(key)} is defined twice")
        found[key] = value
    return found


def _refuse_unknown(data: Iterable[str], known: Iterable[str]) -> None:
    names = tuple(known)
    for key in data:
        if key not in names:
            raise ValueError(f"unknown key {shown(key) or 'without a name'}: {near(key, names)}")


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is not a text" if key in data else f"the record has no {key}")  # noqa: TRY004 (as above)
    return value


def _number(value: object, what: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} is not a whole number of {least} or more")
    return value
