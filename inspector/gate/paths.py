"""One name for a file on every machine: relative to the project, or to where packages are installed."""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+/")


def relative_path(file: str, root: Path, prefixes: Mapping[str, str]) -> str:
    """Name a file below a folder of libraries or `root`; one of another machine by its end that is below `root`."""
    text = file.replace("\\", "/")
    homes = [f"{home}/" for home in dict.fromkeys((root.as_posix(), root.resolve().as_posix()))]
    mine = next((home for home in homes if text.startswith(home)), "")
    packages = _PACKAGES.match(text)
    if packages and len(packages[0]) > len(mine):  # also those of an environment in the project's folder
        return text[packages.end() :]
    if mine:
        return text.removeprefix(mine)
    known = [prefix for prefix in prefixes if text.startswith(f"{prefix}/")]
    if known:
        return text.removeprefix(f"{max(known, key=len)}/")
    return _end_below(text, root)


def _end_below(text: str, root: Path) -> str:
    """Find the longest end of a path that is a file below `root`; else its last two parts."""
    parts = PurePosixPath(text).parts
    for at in range(1, len(parts)):
        end = PurePosixPath(*parts[at:])
        if ".." not in end.parts and (root / end).is_file():
            return str(end)
    return "/".join(parts[-2:]).lstrip("/")
