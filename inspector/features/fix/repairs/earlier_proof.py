"""Keep what `ctrace fix` proved for the `--apply` that follows, as long as nothing that the proof depends on changes.

A saved proof is a file in the folder of runs, and decides what `--apply` writes. Others may write there, or a clone may
contain one. So it counts only with a keyed digest, which covers its own path and all of its text and proves that this
user's ctrace wrote it; see `runs/provenance.py`. It holds new texts only of files that the target was loaded from, each
with the digest of the text that the repair was proved on; see `applying.py` for how they are written.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import SettingsError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.fix.repairs.neighbor_files import neighbors_of
from ctrace.inspector.features.fix.repairs.repair_result import Fixes, base_of, chosen
from ctrace.inspector.features.fix.repairs.trial_runs import Evidence
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.files.typed_json import read_text
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.answers import (
    Answers,
    NotReusableError,
    answers_of,
    are_unchanged,
    forget_answers,
    is_current,
)
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.circumstances import Circumstances

_FOLDER = ".proved"
"""The folder of saved proofs in the folder of runs; a name that begins with a dot is not a run."""
_MOST_SAVED = 20
"""Old proofs beyond these are deleted: each has the text of its files, and holds only while nothing changes."""


class _Proof(Struct, frozen=True):
    """A saved proof."""

    at: float
    """When it was proved, in seconds since the epoch."""
    fixes: Fixes
    """The result, with only those parts of the session that reports show."""
    files: Mapping[str, str]
    """Digests of the user's files that the target was loaded from and read, and of those that use the changed ones."""
    answers: tuple[Answers, ...]
    """What else it asked, in each observed run."""


class _Signed(Struct, frozen=True):
    """A proof as it is on disk."""

    text: str
    """`_Proof` as JSON."""
    proof: str


class EarlierProof:
    """The saved proof of one command line."""

    def __init__(self, root: Path, target: str, options: Options, choices: Any) -> None:
        """Find where the proof is saved.

        Args:
            root: the folder of runs.
            target: the target as typed.
            options: how to call it.
            choices: all other options that decide what is proved, as plain data.
        """
        self._root = root
        self._path: Path | None = None
        forget_answers()
        with suppress(SettingsError, OSError, ValueError):  # then nothing is reused
            name = Circumstances(root, ()).digest(msgspec.to_builtins(choices), target, options)
            self._path = root / _FOLDER / f"{name}.json"

    def find(self) -> Fixes | None:
        """Return what was proved; None: nothing, or something that it depends on has changed."""
        if self._path is None:
            return None
        try:
            signed = msgspec.json.decode(read_text(self._path), type=_Signed)
            # Before the text is read any further: whoever can write to the folder can write any text.
            if not provenance.is_ours(self._covered(signed.text), signed.proof):
                return None
            found = msgspec.json.decode(signed.text, type=_Proof)
            if not _is_current(found) or not _writes_only(found.fixes, found.files):
                return None
            if not _neighbors(found.fixes) <= found.files.keys():  # a file came that uses a changed one
                return None
        except (OSError, ValueError, msgspec.MsgspecError):  # none, or damaged: the repair is proved again
            return None
        return replace(found.fixes, proved_at=found.at)

    def keep(self, fixes: Fixes, evidence: Iterable[Evidence]) -> str:
        """Save what was proved; return why it is not saved, empty if it is or if there is nothing to apply."""
        if self._path is None:
            return "ctrace's settings or its installation cannot be read"
        with suppress(OSError):  # one that stays counts only while its answers hold
            self._path.unlink(missing_ok=True)
        combined = chosen(fixes)
        if combined is None or not combined.files or fixes.interrupted or fixes.session.failure is not None:
            return ""
        files: dict[str, str] = {}
        answers = []
        try:
            for run in evidence:
                known = run.session.made_of
                if not known:
                    raise NotReusableError("it is not known which files the target was loaded from")
                digests, answered = answers_of(run.session.asked, run.observed, known, *run.folders)
                files.update(digests)
                answers.append(answered)
            read = {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in _neighbors(fixes)}
            # For a file that the run read, its digest then is kept: a change since shows in `_is_current` below.
            files = {**read, **files}
            forget_answers()
            proof = _Proof(time.time(), _shown(fixes), files, tuple(answers))
            if not answers or not _is_current(proof) or not _writes_only(fixes, files):
                raise NotReusableError("what it depends on changed meanwhile")
            self._write(proof)
        except NotReusableError as error:
            return str(error)
        except OSError as error:
            return f"it cannot be saved: {reason(error)}"
        except ValueError as error:
            return f"it cannot be saved: {error}"
        return ""

    def _write(self, found: _Proof) -> None:
        assert self._path is not None
        text = msgspec.json.encode(found).decode()
        proof = provenance.proof_of(self._covered(text))
        if not proof:
            raise NotReusableError("there is no key to sign it")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # The oldest go, and one more than are too many, since this one is added.
        saved = sorted(self._path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for path in saved[: max(len(saved) - _MOST_SAVED + 1, 0)]:
            path.unlink(missing_ok=True)
        write_text(self._path, msgspec.json.encode(_Signed(text, proof)).decode())

    def _covered(self, text: str) -> str:
        """Return what the digest covers: the text, and where it is, so that no other file's text stands in for it."""
        assert self._path is not None
        return f"proved repair\0{self._path.resolve()}\0{text}"


def _shown(fixes: Fixes) -> Fixes:
    """Return a result without what no report of it shows."""
    whole = fixes.session
    session = Session(
        target=whole.target,
        environment=whole.environment,
        graphs=whole.graphs,
        breaks=whole.breaks,
        skips=whole.skips,
        limit=whole.limit,
    )
    return replace(fixes, session=session)


def _is_current(found: _Proof) -> bool:
    """Whether the files are unchanged, and the questions have the same answers.

    Raises:
        OSError: a file is gone.
        ValueError: a file is no longer a regular file.
    """
    return all(map(is_current, found.answers)) and are_unchanged(found.files)


def _neighbors(fixes: Fixes) -> set[str]:
    """Return the files that use what a repair changes, which the target need not have read."""
    combined = chosen(fixes)
    changed = []
    if combined is not None:
        changed = [each.file for each in combined.files]
    return {os.path.realpath(path) for file in changed for path in neighbors_of(file)}


def _writes_only(fixes: Fixes, files: Mapping[str, str]) -> bool:
    """Whether a repair changes only files that the target was loaded from, from the texts that they have."""
    combined = chosen(fixes)
    base = base_of(fixes)
    return combined is not None and all(
        files.get(os.path.realpath(each.file)) == hashlib.sha256(base[each.file].encode()).hexdigest()
        for each in combined.files
    )
