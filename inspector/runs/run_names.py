"""Name runs, rename them, and keep them from being pruned."""

import os
import unicodedata
from contextlib import suppress
from pathlib import Path

from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.files.disk_errors import reason, remedy
from ctrace.inspector.files.lock import unused
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.store import KEPT, SavedRun, Store

# A name is a folder, and stands in a column of `ctrace runs`.
_LONGEST = 64
_MARKS = "-_."
_SHAPE = f"use letters, digits and {' '.join(_MARKS)}, at most {_LONGEST}, and begin with a letter or a digit"


def new_name(text: str, store: Store) -> str:
    """Check the name for a new run.

    Raises:
        TargetError: the name is invalid or taken.
    """
    # macOS stores names in another form than a user types them, and both mean one name.
    name = unicodedata.normalize("NFC", text)
    if not _is_name(name):
        raise TargetError(f"{text!r} is not a name for a run", _SHAPE)
    if os.path.lexists(store.root / name):
        todo = f"choose another name, or rename the other one: ctrace runs --rename {name} NEW"
        raise TargetError(f"a run named {name} exists already", todo)
    # `ctrace explain NAME` would not know whether the file or the run is meant.
    if os.path.lexists(name):
        raise TargetError(f"{name} is a file or folder here, so it cannot name a run", "choose another name")
    return name


def keep(store: Store, name: str) -> SavedRun:
    """Keep a run from being deleted for newer runs, or by `ctrace runs --prune`.

    Raises:
        RunError: there is no such run, or its folder cannot be written.
    """
    run = _stored(store, name)
    try:
        (run.folder / KEPT).touch()
    except OSError as error:
        raise _unwritten(run.folder, error) from None
    return run


def unkeep(store: Store, name: str) -> SavedRun:
    """Allow a run to be deleted again.

    Raises:
        RunError: there is no such run, or its folder cannot be written.
    """
    run = _stored(store, name)
    try:
        (run.folder / KEPT).unlink(missing_ok=True)
    except OSError as error:
        raise _unwritten(run.folder, error) from None
    return run


def rename(store: Store, old: str, new: str) -> str:
    """Rename a run, and keep it; return its name.

    Raises:
        TargetError: the new name is invalid or taken.
        RunError: there is no such run, it is in use, or its folder cannot be written.
    """
    run = _stored(store, old)
    name = new_name(new, store)
    # Asked before the move, as the proof names the folder.
    has_proof = not provenance.doubt(run)
    with unused(run.folder) as is_free:
        if run.is_active or not is_free:
            raise RunError(f"another process is writing or reading {run.name}", "rename it when that process has ended")
        try:
            _move(run.folder, store.root / name)
        except OSError as error:
            raise _unwritten(store.root, error) from None
    moved = keep(store, name)
    if has_proof:
        with suppress(OSError):  # without the proof, the user must name the target to rerun it
            provenance.sign(moved)
    return name


def _move(folder: Path, new: Path) -> None:
    """Move a folder to a free name: create an empty folder to reserve the name, and replace it."""
    new.mkdir()
    try:
        folder.replace(new)
    except OSError:
        new.rmdir()
        raise


def _stored(store: Store, name: str) -> SavedRun:
    """Find a run in the store by its name or its folder."""
    run = store.load(name)
    # The path of a run may be given in place of its name, and only runs of this store are its own.
    if run.folder.is_symlink() or run.folder.resolve().parent != store.root.resolve():
        raise RunError(f"{name} is not one of the runs in {store.root}", "ctrace runs lists them")
    return run


def _is_name(name: str) -> bool:
    # File systems take 255 bytes, and temporary files add to the name; Windows drops a dot at the end.
    if not name or len(name) > _LONGEST or len(name.encode("utf-8", "surrogatepass")) > 200 or name.endswith("."):
        return False
    letters = all(letter in _MARKS or unicodedata.category(letter)[0] in "LMN" for letter in name)
    return letters and unicodedata.category(name[0])[0] in "LN"


def _unwritten(folder: Path, error: OSError) -> RunError:
    return RunError(f"{folder} cannot be changed: {reason(error)}", remedy(error))
