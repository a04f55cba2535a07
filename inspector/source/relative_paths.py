"""Name files in the same way on every machine: relative to the project, or to the folder of installed packages."""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+/", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")


def relative_path(file: str, root: Path, prefixes: Mapping[str, str]) -> str:
    """Return a path relative to a library folder or `root`; for another machine's file, find the part below `root`."""
    text = _plain(file)
    homes = [f"{home}/" for home in dict.fromkeys((root.as_posix(), root.resolve().as_posix()))]
    mine = next((home for home in homes if text.startswith(home)), "")
    packages = _PACKAGES.match(text)
    if packages and len(packages[0]) > len(mine):  # first, because an environment may be inside the project's folder
        return text[packages.end() :]
    if mine:
        return text.removeprefix(mine)
    known = [prefix for prefix in map(_plain, prefixes) if text.startswith(f"{prefix}/")]
    if known:
        return text.removeprefix(f"{max(known, key=len)}/")
    return _end_below(text, root)


def _plain(file: str) -> str:
    """Return a path with `/`, and without `.` and `..`."""
    if file:
        return posixpath.normpath(file.replace("\\", "/"))
    return ""


def _end_below(text: str, root: Path) -> str:
    """Return the longest suffix that is a file below `root`; else the last two parts, or all of a relative path."""
    parts = PurePosixPath(text).parts
    is_absolute = bool(parts) and (parts[0].startswith("/") or _DRIVE.fullmatch(parts[0]) is not None)
    for at in range(is_absolute, len(parts)):
        end = PurePosixPath(*parts[at:])
        # A log may name a file outside of the project by a way through it.
        if ".." not in end.parts and _is_file(root / end):
            return str(end)
    return "/".join(parts[1:][-2:] if is_absolute else parts)


def _is_file(path: Path) -> bool:
    """Whether a file exists; a name from a log may be too long for the system, and then it does not."""
    try:
        return path.is_file()
    except OSError:
        return False
