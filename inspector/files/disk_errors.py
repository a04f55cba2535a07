"""Explain the system's errors about files that cannot be written, and say how to fix them."""

import errno

_ELSEWHERE = "or keep runs elsewhere: CTRACE_DIR=/path/to/folder"
_REMEDIES = {
    errno.ENOSPC: f"free some space (ctrace runs --prune 3), {_ELSEWHERE}",
    errno.EDQUOT: f"free some space (ctrace runs --prune 3), {_ELSEWHERE}",
    errno.EFBIG: f"allow larger files (ulimit -f unlimited), {_ELSEWHERE}",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
    errno.ENFILE: "close other programs: the system is out of file handles",
    errno.ENOENT: "keep runs where the program does not delete them: CTRACE_DIR=/path/to/folder",
    errno.EIO: f"check the disk, {_ELSEWHERE}",
}
_OF_THE_SYSTEM = {*_REMEDIES, errno.EROFS, errno.ENOMEM} - {errno.ENOENT}
_FORBIDDEN = "name a folder that you may write to: CTRACE_DIR=/path/to/folder"


def is_of_the_system(error: OSError) -> bool:
    """Whether the disk or the system caused the error; other errors may be bugs in ctrace."""
    return error.errno in _OF_THE_SYSTEM


def reason(error: OSError) -> str:
    """Return the system's message, for use inside a sentence."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def remedy(error: OSError, otherwise: str = _FORBIDDEN) -> str:
    """Return what the user can do; return `otherwise` for an error that concerns neither the disk nor open files."""
    return _REMEDIES.get(error.errno or 0, otherwise)
