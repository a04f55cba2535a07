"""Manage the folder of a dump: ctrace writes nothing outside of it, and deletes no file that ctrace did not write.

File and folder names are safe on every file system.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctrace.inspector.errors import DumpError
from ctrace.inspector.files.disk_errors import reason
from ctrace.inspector.files.writing import write_json, write_text

INDEX = "index.json"
TOOL = "ctrace"
_ELSEWHERE = "name another folder, or an empty one"


class Folder:
    """A folder to dump to; its index lists the files that ctrace wrote, and is written first and last."""

    def __init__(self, path: Path, index: str = INDEX) -> None:
        self.path = path
        self._index = index
        self._written: dict[str, str] = {}

    def begin(self) -> None:
        """Make the folder, or delete an earlier dump in it.

        Raises:
            DumpError: the folder has other files, a file of the earlier dump was changed, or a write fails.
        """
        try:
            old = self._earlier()
            self.path.mkdir(parents=True, exist_ok=True)
            for name in old:
                self._at(name).unlink(missing_ok=True)
            for below in sorted({Path(name).parts[0] for name in old if len(Path(name).parts) > 1}):
                self._remove_empty(self.path / below)
            self._mark(complete=False, more={})
        except OSError as error:
            raise self._refused(error) from None

    def write(self, name: str, text: str) -> Path:
        """Write a file, `name` or `folder/name`, whole or not at all.

        Raises:
            DumpError: it cannot be written.
        """
        try:
            path = self._at(name)
            path.parent.mkdir(exist_ok=True)
            data = text.encode("utf-8", "backslashreplace").decode()
            write_text(path, data)
        except OSError as error:
            raise self._refused(error) from None
        self._written[name] = _digest(data.encode())
        return path

    def finish(self, more: Mapping[str, Any]) -> Path:
        """Write the index, which says that the dump is complete."""
        try:
            return self._mark(complete=True, more=more)
        except OSError as error:
            raise self._refused(error) from None

    def _mark(self, *, complete: bool, more: Mapping[str, Any]) -> Path:
        path = self._at(self._index)
        write_json(path, {"tool": TOOL, "schema": 1, "complete": complete, **more, "files": self._written})
        return path

    def _at(self, name: str) -> Path:
        """Return the path of a dumped file; refuse names outside the folder and folders that are links."""
        parts = Path(name).parts
        if not parts or len(parts) > 2 or Path(name).is_absolute() or ".." in parts or "\0" in name:
            raise DumpError(f"{name!r} is not the name of a dumped file", _ELSEWHERE)
        if len(parts) == 2 and (self.path / parts[0]).is_symlink():
            raise DumpError(f"{self.path / parts[0]} is a link to somewhere else", _ELSEWHERE)
        return self.path / name

    def _earlier(self) -> list[str]:
        """List the files of an earlier dump in the folder."""
        if not self.path.exists():
            return []
        if not self.path.is_dir():
            raise DumpError(f"{self.path} is not a folder", _ELSEWHERE)
        if not any(self.path.iterdir()):
            return []
        files = _files(self.path / self._index)
        if files is None:
            raise DumpError(f"{self.path} has files that ctrace did not write", _ELSEWHERE)
        for name, digest in files.items():
            path = self._at(name)
            if path.is_file() and not path.is_symlink() and _digest(path.read_bytes()) != digest:
                raise DumpError(f"{path} was changed since ctrace wrote it", "name another folder, or delete that file")
        return list(files)

    def _remove_empty(self, folder: Path) -> None:
        if folder.is_dir() and not folder.is_symlink():
            if (cache := folder / "__pycache__").is_dir() and not cache.is_symlink():
                for compiled in cache.glob("*.pyc"):
                    compiled.unlink(missing_ok=True)
                cache.rmdir()
            if not any(folder.iterdir()):
                folder.rmdir()

    def _refused(self, error: OSError) -> DumpError:
        return DumpError(f"{self.path} cannot be written: {reason(error)}", "name a folder you may write to")


def _files(index: Path) -> dict[str, str] | None:
    """Read which files an earlier dump wrote; return None if there is no earlier dump."""
    try:
        if index.is_symlink():
            return None
        data = json.loads(index.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("tool") != TOOL or not isinstance(data.get("files"), dict):
        return None
    return {str(name): str(digest) for name, digest in data["files"].items()}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 80
"""The most characters of a stem; names of fused kernels have up to about 200."""
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10)))
)
"""Names that Windows reserves for devices, with any extension."""


def safe(text: str) -> str:
    """Make a file name's stem from any text: at most 80 ASCII letters, digits, `_` and `-`, and no reserved name.

    Of a long name, keep the end, because the number there distinguishes the kernels of a graph.
    """
    stem = _UNSAFE.sub("_", text).strip("_-") or "unnamed"
    if len(stem) > _LONGEST:
        tail = stem[-20:].lstrip("_-")
        stem = f"{stem[: _LONGEST - len(tail) - 1].rstrip('_-')}_{tail}"
    if stem.lower() in _RESERVED:
        return f"_{stem}"
    return stem


class FileNames:
    """Makes unique names; names that differ only in case count as equal, as on some file systems."""

    def __init__(self, *taken: str) -> None:
        self._taken = {name.lower() for name in taken}

    def new(self, text: str) -> str:
        """Return a safe stem that is not in use yet."""
        stem, number = safe(text), 1
        name = stem
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}-{number}"
        self._taken.add(name.lower())
        return name
