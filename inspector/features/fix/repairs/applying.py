"""Write repaired files, all or none, and save how to undo it.

The record is written first and says what each file is to become, so a process that is killed in the middle leaves a
journal: `undo` takes back the files that are changed already.

An undo writes to the paths in its record. A cloned repository may contain any record, so each has a proof that this
user's ctrace wrote it.
"""

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import DecodeError, Struct, ValidationError, json

from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs.repair_texts import reversed_patch
from ctrace.inspector.files.disk_errors import reason, remedy
from ctrace.inspector.files.writing import remove_temporaries, replace_text, write_text
from ctrace.inspector.runs import provenance

_FOLDER = "fixes"
_RECORD = ".json"
_PROOF = ".made-here"
_UNFINISHED = ".unfinished"
"""The name of a mark that exists while files are written."""


class Replaced(Struct, frozen=True):
    """A file before and after."""

    file: str
    before: str
    after: str


class AppliedRepair(Struct, frozen=True):
    """An applied repair, as it is kept on disk."""

    names: tuple[str, ...]
    files: tuple[Replaced, ...]


def refuse_dirty(files: Iterable[str]) -> None:
    """Refuse files with uncommitted changes: an undo must not be the only way back.

    Raises:
        TargetError: a file has such changes.
    """
    for file in files:
        state = _git_state(Path(file))
        if state:
            raise TargetError(f"{file} {state}", "commit or stash it first, or use --force")


def _git_state(path: Path) -> str:
    """Say why git could not restore a file; empty: it could, or there is no git."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(path.parent), "status", "--porcelain", "--", path.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        return ""
    if done.stdout.startswith("??"):
        return "is not in git yet"
    return "has uncommitted changes"


def apply(root: Path, names: Iterable[str], base: Mapping[str, str], files: Iterable[NewText], cwd: str) -> Path:
    """Write files, all or none, after saving the reverse patch; return its path.

    Raises:
        RunError: a file has changed since the proof, or cannot be written; all files are as before.
    """
    # The next undo would take back a newer repair, and leave this one torn.
    unfinished = sorted((root / _FOLDER).glob(f"*{_UNFINISHED}"))
    if unfinished:
        what = f"an earlier --apply was killed in the middle: {unfinished[-1].with_suffix('.patch')}"
        raise RunError(what, "take it back first: ctrace fix --undo")
    changed = tuple(Replaced(os.path.realpath(each.file), base[each.file], each.text) for each in files)
    for each in changed:
        if _read(each.file) != each.before:
            what = f"{each.file} has changed since the repair was proved"
            raise RunError(what, "run ctrace fix again")
    patch = _saved(root, AppliedRepair(tuple(names), changed), reversed_patch(base, files, cwd))
    try:
        _replace_all((each.file, each.before, each.after) for each in changed)
    except BaseException:
        if all(_holds(each.file, each.before) for each in changed):
            _forget(patch.with_suffix(_RECORD))  # there is nothing to undo
        raise
    patch.with_suffix(_UNFINISHED).unlink(missing_ok=True)
    return patch


def _saved(root: Path, applied: AppliedRepair, patch: str) -> Path:
    folder = root / _FOLDER
    name = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while (folder / f"{name}-{number}{_RECORD}").exists():
        number += 1
    record = folder / f"{name}-{number}{_RECORD}"
    try:
        # The record is written last: `undo` looks for records, so each that it finds has its patch, its
        # proof and its mark.
        folder.mkdir(parents=True, exist_ok=True)
        write_text(record.with_suffix(".patch"), patch, is_precious=True)
        text = json.encode(applied).decode()
        write_text(record.with_suffix(_PROOF), provenance.proof_of(text), is_precious=True)
        write_text(record.with_suffix(_UNFINISHED), "", is_precious=True)
        write_text(record, text, is_precious=True)
    except OSError as error:
        _forget(record)
        what = f"{folder} cannot be written: {reason(error)}, so nothing was changed"
        raise RunError(what, remedy(error)) from None
    return record.with_suffix(".patch")


def undo(root: Path) -> AppliedRepair:
    """Undo the last applied repair.

    Raises:
        RunError: there is none, nothing proves that this user's ctrace wrote its record, a file has changed since, or a
            file cannot be written.
    """
    records = []
    if (root / _FOLDER).is_dir():
        # Names begin with the time, so the last is the newest.
        records = sorted((root / _FOLDER).glob(f"*{_RECORD}"))
    if not records:
        raise RunError("there is no applied repair to undo", f"repairs that ctrace fix --apply wrote are in {root}")
    record = records[-1]
    patch = record.with_suffix(".patch")
    try:
        text = record.read_text(encoding="utf-8")
        applied = json.decode(text, type=AppliedRepair)
    except (OSError, UnicodeDecodeError, DecodeError, ValidationError) as error:
        raise RunError(f"{record} cannot be read: {error}", f"apply {patch} by hand") from None
    # Before anything is written: an undo writes whatever texts, to whatever paths, its record names.
    if not provenance.is_ours(text, _proof_beside(record)):
        raise RunError(f"nothing proves that {record} was written here", f"read {patch}, and apply it by hand")
    is_torn = record.with_suffix(_UNFINISHED).exists()
    changed = []
    for each in applied.files:
        text = _read(each.file)
        # A kill may have come before this file's turn, which then still has its old text: there is nothing
        # to take back.
        if text not in (each.before, each.after) and not (is_torn and text == _torn(each)):
            what = f"{each.file} has changed since the repair was applied"
            raise RunError(what, f"apply the reverse patch by hand: {patch}")
        if text != each.before:
            changed.append((each.file, text, each.before))
    _replace_all(changed)
    remove_temporaries(each.file for each in applied.files)
    _forget(record)
    return applied


def _torn(each: Replaced) -> str:
    """Return what a file holds that was written in place, but not cut to its new length yet."""
    # The end of the old text may begin inside of a character.
    return each.after + each.before.encode()[len(each.after.encode()) :].decode(errors="replace")


def _forget(record: Path) -> None:
    """Delete the record of an applied repair, with its patch and its proof."""
    for path in (record, *map(record.with_suffix, (".patch", _PROOF, _UNFINISHED))):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _proof_beside(record: Path) -> str:
    try:
        return record.with_suffix(_PROOF).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _read(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8", newline="") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not in UTF-8"
        if isinstance(error, OSError):
            why = reason(error)
        raise RunError(f"{file} cannot be read: {why}", "check the file") from None


def _holds(file: str, text: str) -> bool:
    try:
        return _read(file) == text
    except RunError:
        return False


def _replace_all(files: Iterable[tuple[str, str, str]]) -> None:
    """Replace files, given as path, old and new text; on any error or interrupt, write the old ones back."""
    done: list[tuple[str, str]] = []
    file = ""
    try:
        for file, before, after in files:
            done.append((file, before))  # first: an interrupt may come right after the file is replaced
            _write(Path(file), after)
    except BaseException as error:
        with _undisturbed():
            kept = [each for each, before in reversed(done) if not _restored(each, before)]
        state = "all files are as before"
        if kept:
            state = f"these could not be restored: {', '.join(kept)}"
        if isinstance(error, OSError):
            raise RunError(f"{file} cannot be written: {reason(error)}; {state}", remedy(error)) from None
        if kept:
            raise RunError(f"interrupted; {state}", "apply the reverse patch in .ctrace/fixes by hand") from None
        raise


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back further signals until the files are restored, where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # A second Ctrl-C would end the restoring halfway.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _restored(file: str, text: str) -> bool:
    """Write a file's old text unless the file has it; return whether the file has it then."""
    try:
        if _read(file) != text:
            _write(Path(file), text)
    except (OSError, RunError):
        return False
    return True


def _write(path: Path, text: str) -> None:
    """Write a file whole, with its permissions, its owner and its other names.

    Raises:
        OSError: it cannot be written.
    """
    # Renaming a new file over an old one needs no right to write the old one: a read-only file would be replaced.
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    replace_text(path, text)
