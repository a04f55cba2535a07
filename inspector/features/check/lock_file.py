"""Read and write `ctrace.lock`: one record per line, sorted and separated, so that git can merge two branches.

A record is JSON: the counts of a job, or a site.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import LockError, near, shown
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.sites import Known, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.files.lock import locked
from ctrace.inspector.files.writing import check_regular, write_output
from ctrace.inspector.files.yaml_file import named

Counts = Mapping[Count, int]
_JOB = ("model", "scenario", "target")
_SITE = ("owner", "place", "text", "times")
# So many digits fit into 64 bits, as every number that ctrace writes.
_DIGITS = 18


class LockLine(Struct, frozen=True):
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
    # Letters of any language stay readable in a diff.
    text = json.dumps({**about, **(_site(holds) if isinstance(holds, Known) else _counts(holds))}, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _counts(counts: Counts) -> dict[str, Any]:
    return {"counts": {count: counts[count] for count in Count if count in counts}}


def _site(known: Known) -> dict[str, Any]:
    key = known.key
    return {key.kind: key.causes, "owner": key.owner, "place": key.place, "text": key.text, "times": known.times}


def read_record(line: str) -> LockLine:
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
        return LockLine(job, _read_counts(data["counts"]))
    _refuse_unknown(data, (*_JOB, kinds[0], *_SITE))
    return LockLine(job, _read_site(kinds[0], data))


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
        # json keeps the last of two equal keys, and reads numbers of any length.
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
    # True is an int, and JSON has both.
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} is not a whole number of {least} or more")
    return value


NAME = "ctrace.lock"
_FORMAT = 1
"""Raised when the file's layout changes, so that an older ctrace refuses it rather than misreads it."""
_HEADER = (
    f"# {NAME} {_FORMAT}: what torch.compile left out of each model, by torch version; ctrace check allows no more.",
    "# Written by ctrace check --update; with --only-improve, nothing in it gets looser.",
)
_OF_FORMAT = re.compile(rf"#\s*{re.escape(NAME)} ([0-9]+)\b")
_SECTION = re.compile(r"\[torch ([0-9]{1,6}\.[0-9]{1,6})\]")
_CONFLICT = re.compile(r"<{7}|={7}|>{7}|\|{7}")
_LARGEST = 1 << 26
"""Maximum size of a file in bytes."""
_TAKE_OUT = "remove the line and run ctrace check --update, or restore the file from git"
_TAKE_AGAIN = "restore the file from git, or remove it and run ctrace check --update"


def load_lock(path: Path) -> Lock:
    """Read a lock; a missing file counts as an empty lock.

    Raises:
        LockError: it cannot be read, or it is invalid.
    """
    try:
        check_regular(path)
        with path.open("rb") as file:
            # One byte more than allowed shows that there is more.
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return Lock()
    except (OSError, ValueError) as error:
        raise _unusable(path, "read", error) from None
    if len(data) > _LARGEST:
        raise LockError(f"{named(path)}, line 1: it is larger than {_LARGEST >> 20} MiB", _TAKE_AGAIN)
    return parse_lock(_decoded(data, named(path)), str(path), named(path))


def parse_lock(text: str, file: str, shown: str | None = None) -> Lock:
    """Parse the text of a lock; error messages name the file as `shown`.

    Raises:
        LockError: it is invalid; the message names the line.
    """
    return Lock(_Reader(shown or file).read(text), file)


def lock_text(lock: Lock) -> str:
    """Return a lock as text; equal locks have equal text, in any order of construction."""
    parts = ["\n".join(_HEADER)]
    for version in sorted(lock.sections, key=_as_numbers):
        parts += [f"[torch {version}]", *_lines(lock.sections[version])]
    return "\n\n".join(parts) + "\n"


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock, whole or not at all.

    Raises:
        LockError: it cannot be written.
    """
    try:
        write_output(path, lock_text(lock))
    except OSError as error:
        raise _unusable(path, "written", error) from None


@contextmanager
def writing_lock(path: Path, say: Callable[[str], None] = lambda _text: None) -> Iterator[Lock]:
    """Yield the current lock to a block that updates it; other processes wait until the block ends.

    Raises:
        LockError: it cannot be read, or it is invalid.
    """
    # Processes may name the file by different links.
    with locked(Path(os.path.realpath(path)), say):
        yield load_lock(path)


def _unusable(path: Path, verb: str, error: Exception) -> LockError:
    why = getattr(error, "strerror", None) or type(error).__name__
    return LockError(f"{named(path)} cannot be {verb}: {why}", "make sure that it is a file you own, or name another")


def _decoded(data: bytes, shown: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LockError(f"{shown}, line {line}: not UTF-8 text", _TAKE_AGAIN) from None


def _as_numbers(version: str) -> tuple[tuple[int, ...], str]:
    # As numbers: 2.9 comes before 2.10.
    return tuple(int(part) for part in version.split(".")), version


def _lines(section: Mapping[JobKey, Baseline]) -> Iterator[str]:
    for job in sorted(section):
        baseline = section[job]
        yield record_line(job, baseline.counts)
        yield from (record_line(job, known) for known in sorted(baseline.sites, key=lambda each: each.key))


class _Reader:
    """Builds a lock from its lines."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._sections: dict[str, dict[tuple[JobKey, SiteKey | None], tuple[LockLine, int]]] = {}
        self._section: str | None = None

    def read(self, text: str) -> dict[str, dict[JobKey, Baseline]]:
        """Read all lines; only a line feed ends a line."""
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
            self._take(line.strip(), number)
        return {version: _jobs([record for record, _ in found.values()]) for version, found in self._sections.items()}

    def _take(self, line: str, number: int) -> None:
        if line.startswith("#"):
            self._check_format(line, number)
        # Before records: `git merge` leaves these marks between two valid ones.
        elif _CONFLICT.match(line):
            todo = "resolve the conflict, or take one side and run ctrace check --update"
            raise self._wrong(number, "a git merge conflict", todo)
        elif line.startswith("["):
            self._begin(line, number)
        elif line:
            self._keep(line, number)

    def _check_format(self, line: str, number: int) -> None:
        found = _OF_FORMAT.match(line)
        if found is not None and found[1].lstrip("0") != str(_FORMAT):
            what = f"this ctrace reads lock format {_FORMAT}, but this is another format"
            raise self._wrong(number, what, "update ctrace: pip install -U ctrace")

    def _begin(self, line: str, number: int) -> None:
        found = _SECTION.fullmatch(line)
        if found is None:
            raise self._wrong(number, "this is not a section header", f"write it as [torch 2.13], or {_TAKE_OUT}")
        self._section = found[1]
        # After a merge, a section may stand twice.
        self._sections.setdefault(found[1], {})

    def _keep(self, line: str, number: int) -> None:
        try:
            record = read_record(line)
        except ValueError as error:
            raise self._wrong(number, str(error), _TAKE_OUT) from None
        if self._section is None:
            what = "this record comes before any [torch ...] line"
            raise self._wrong(number, what, f"put the line of its torch version back, or {_TAKE_OUT}")
        kept, first = self._sections[self._section].setdefault(record.key, (record, number))
        # Two branches may add the same record; only different ones need a decision.
        if kept != record:
            what = f"this contradicts line {first}"
            raise self._wrong(number, what, "remove one of the two, and run ctrace check --update")

    def _wrong(self, number: int, what: str, todo: str) -> LockError:
        return LockError(f"{self._shown}, line {number}: {what}", todo)


def _jobs(records: Sequence[LockLine]) -> dict[JobKey, Baseline]:
    counts: dict[JobKey, Counts] = {}
    sites: dict[JobKey, list[Known]] = {}
    for record in records:
        sites.setdefault(record.job, [])
        if isinstance(record.holds, Known):
            sites[record.job].append(record.holds)
        else:
            counts[record.job] = record.holds
    return {job: Baseline(counts.get(job, {}), _sorted(found)) for job, found in sites.items()}


def _sorted(sites: Sequence[Known]) -> tuple[Known, ...]:
    return tuple(sorted(sites, key=lambda each: each.key))
