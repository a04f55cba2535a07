"""Replace the text of a user's file: whole or not at all, with its permissions, its owner and its other names."""

import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TEMPORARY = "ctrace-"
"""Begins, after the file's own name, the names of new texts that are not in their place yet."""


def replace_text(path: Path, text: str) -> None:
    """Replace the text of a file, and survive a power failure.

    Raises:
        OSError: it cannot be written.
    """
    about = path.stat()
    if about.st_nlink > 1:
        _write_in_place(path, text)
        return
    temporary = path.with_name(f".{path.name}.{_TEMPORARY}{os.urandom(6).hex()}")
    try:
        with temporary.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if _owned_alike(temporary, about):
            temporary.chmod(about.st_mode & 0o7777)
            temporary.replace(path)
        else:
            _write_in_place(path, text)
            temporary.unlink()
    except BaseException as error:
        with suppress(OSError):  # the first error has the cause
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # the temporary name says nothing; a full disk has none
        raise


def remove_temporaries(files: Iterable[str]) -> None:
    """Delete the new texts beside files that a killed process did not put in their place."""
    for file in files:
        path = Path(file)
        for left in path.parent.glob(f".{glob.escape(path.name)}.{_TEMPORARY}*"):
            with suppress(OSError):
                left.unlink()


def _owned_alike(path: Path, about: os.stat_result) -> bool:
    """Set the owner and the group of a file to those of another; return whether it has them."""
    mine = path.stat()
    if (mine.st_uid, mine.st_gid) == (about.st_uid, about.st_gid):
        return True
    try:
        os.chown(path, about.st_uid, about.st_gid)
    except (OSError, AttributeError):  # only root may; Windows has no owners of this kind
        return False
    return True


def _write_in_place(path: Path, text: str) -> None:
    """Write into an existing file, which keeps its other names and its owner: first the text, then its length."""
    data = text.encode()
    with path.open("r+b", buffering=0) as file:
        file.write(data)
        file.truncate(len(data))
        os.fsync(file.fileno())
