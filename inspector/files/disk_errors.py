"""Explain the system's errors about files that cannot be written, and say how to fix them."""

import errno
import os
import tempfile
from pathlib import Path

_ELSEWHERE = "or keep runs elsewhere: CTRACE_DIR=/path/to/folder"
ANOTHER_TEMPORARY = "free some space there, or name another folder: TMPDIR=/path/to/folder"
_REMEDIES = {
    errno.ENOSPC: f"free some space (ctrace runs --prune 3), {_ELSEWHERE}",
    errno.EDQUOT: f"free some space (ctrace runs --prune 3), {_ELSEWHERE}",
    errno.EFBIG: f"allow larger files (ulimit -f unlimited), {_ELSEWHERE}",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
    errno.ENFILE: "close other programs: the system is out of file handles",
    errno.ENOENT: "keep runs where the program does not delete them: CTRACE_DIR=/path/to/folder",
    errno.EIO: f"check the disk, {_ELSEWHERE}",
}
# ENOENT has a remedy for a deleted run's folder, but any missing file raises it: then it may be a bug.
_OF_THE_SYSTEM = {*_REMEDIES, errno.EROFS, errno.ENOMEM} - {errno.ENOENT}
_OF_A_FILE = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.ESTALE,
}
"""Errors about a file that something else deleted, replaced or protects."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
# An error about a file of ctrace's own code is never the user's.
_OURS = Path(__file__).parents[2]
_FORBIDDEN = "name a folder that you may write to: CTRACE_DIR=/path/to/folder"


def is_of_the_system(error: OSError) -> bool:
    """Whether the disk, the system or one of the user's files caused the error; other errors may be bugs in ctrace."""
    return error.errno in _OF_THE_SYSTEM or (error.errno in _OF_A_FILE and (_is_of_user(error) or _has_lost_folder()))


def _is_of_user(error: OSError) -> bool:
    return isinstance(error.filename, str) and not Path(error.filename).is_relative_to(_OURS)


def _has_lost_folder() -> bool:
    """Whether the working folder was deleted."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return True
    return False


def reason(error: OSError) -> str:
    """Return the system's message, for use inside a sentence."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def remedy(error: OSError, otherwise: str = _FORBIDDEN) -> str:
    """Return what the user can do; return `otherwise` for an error that concerns neither the disk nor open files."""
    return _REMEDIES.get(error.errno or 0, otherwise)


def explained(error: OSError) -> tuple[str, str] | None:
    """Say which file the system refuses, and what to do about it; None if the error names no file."""
    if _has_lost_folder():
        return "the working folder was deleted", "change to a folder that exists: cd /path/to/folder"
    if not isinstance(error.filename, str):
        return None
    return f"{error.filename}: {reason(error)}", _remedy_at(Path(error.filename).absolute(), error)


def _remedy_at(path: Path, error: OSError) -> str:
    """Return what to do about a file, by the folder that it is in."""
    # Read without a call: `gettempdir` would look for a folder, and fail again where there is none.
    if tempfile.tempdir is not None and path.is_relative_to(tempfile.tempdir):
        return ANOTHER_TEMPORARY
    if path.is_relative_to(Path(os.environ.get("CTRACE_DIR") or ".ctrace").absolute()):
        return remedy(error)
    return f"{'free some space' if error.errno in _FULL else 'see who may read and write it'}, or name another file"
