"""Names of files and folders that are safe on every disk."""

import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 80
"""Characters of a stem; the generated names of fused kernels go up to some 200."""
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10)))
)
"""Names that mean a device on Windows, whatever comes after a dot."""


def safe(text: str) -> str:
    """Make a stem of a file's name out of any text: ASCII letters, digits, `_` and `-`, at most 80, none reserved.

    What comes last is kept of a long name: kernels of a graph differ in their number.
    """
    stem = _UNSAFE.sub("_", text).strip("_-") or "unnamed"
    if len(stem) > _LONGEST:
        tail = stem[-20:].lstrip("_-")
        stem = f"{stem[: _LONGEST - len(tail) - 1].rstrip('_-')}_{tail}"
    return f"_{stem}" if stem.lower() in _RESERVED else stem


class Names:
    """Gives names out, each once, also where the disk does not tell capitals from small letters."""

    def __init__(self, *taken: str) -> None:
        self._taken = {name.lower() for name in taken}

    def new(self, text: str) -> str:
        """Give a safe stem that was not given before."""
        stem, number = safe(text), 1
        name = stem
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}-{number}"
        self._taken.add(name.lower())
        return name
