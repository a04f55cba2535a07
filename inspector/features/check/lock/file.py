"""Read and write `ctrace.lock`: one record per line, sorted and separated, so that git can merge two branches."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ctrace.inspector.errors import LockError
from ctrace.inspector.facts.sites import Known, SiteKey
from ctrace.inspector.features.check.lock.records import Counts, Record, read_record, record_line
from ctrace.inspector.features.check.model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.policy.yaml_nodes import named
from ctrace.inspector.files.lock import locked
from ctrace.inspector.files.writing import check_regular, write_output

NAME = "ctrace.lock"
_FORMAT = 1
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
        self._sections: dict[str, dict[tuple[JobKey, SiteKey | None], tuple[Record, int]]] = {}
        self._section: str | None = None

    def read(self, text: str) -> dict[str, dict[JobKey, Baseline]]:
        """Read all lines; only a line feed ends a line."""
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
            self._take(line.strip(), number)
        return {version: _jobs([record for record, _ in found.values()]) for version, found in self._sections.items()}

    def _take(self, line: str, number: int) -> None:
        if line.startswith("#"):
            self._check_format(line, number)
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
        if kept != record:
            what = f"this contradicts line {first}"
            raise self._wrong(number, what, "remove one of the two, and run ctrace check --update")

    def _wrong(self, number: int, what: str, todo: str) -> LockError:
        return LockError(f"{self._shown}, line {number}: {what}", todo)


def _jobs(records: Sequence[Record]) -> dict[JobKey, Baseline]:
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
