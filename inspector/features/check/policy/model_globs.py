"""Find the models that a text in a policy or on a command line names."""

import os
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.files.writing import working_folder

_MARKS = frozenset("*?[")
_NOT_MODELS = ("_", "test_", "conftest.py")
"""How names of files begin that usually define no model; see `Named.by_chance`."""


class Named(Struct, frozen=True):
    """A named model."""

    key: str
    """The model, relative to the policy's folder, with `/`; see `JobKey.model`."""
    target: str
    """The model, relative to the working directory."""
    by_chance: bool = False
    """Whether a glob matched the file, whose name suggests that it defines no model; a check skips such a file
    silently.
    """

    def names(self, other: "Named") -> bool:
        """Whether `other` is the same model, or an object in the same file if this name has no `:name`."""
        if self.target == other.target:
            return True
        (file, name), (others, its) = _split(self.target), _split(other.target)
        if file is None or others is None:
            return False
        return Path(file).resolve() == Path(others).resolve() and name in ("", its)


def expanded(text: str, root: Path) -> list[Named]:
    """Return the models that a text names; paths are relative to `root`.

    Raises:
        PolicyError: it is a glob that matches nothing or is invalid.
    """
    if _MARKS.isdisjoint(text):
        return [named_by(text, root, root)]
    pattern, name = _split(text)
    files = _globbed(text, pattern or text, root)
    if not files:
        raise PolicyError(f"{text} matches no Python file", f"ctrace searches in {root.absolute()}")
    end = f":{name}" if name else ""
    return [
        Named(_relative(file, root) + end, _from_here(file) + end, file.name.startswith(_NOT_MODELS)) for file in files
    ]


def named_by(text: str, root: Path, base: Path = Path()) -> Named:
    """Return the model that `text` names, with its name relative to `root`; a path in `text` is relative to `base`."""
    file, name = _split(text)
    if file is None:
        return Named(text, text)
    end = f":{name}" if name else ""
    path = base / file
    return Named(_relative(path, root) + end, _from_here(path) + end)


def _split(text: str) -> tuple[str | None, str]:
    """Split `policy_file.py:name`; without a file, the text is the name of a module."""
    before, colon, name = text.rpartition(":")
    if not colon:
        return text, ""
    if before.endswith(".py") or "/" in before or os.sep in before:
        return before, name
    return None, name


def _globbed(text: str, pattern: str, root: Path) -> list[Path]:
    path = Path(pattern)
    start = Path(path.anchor) if path.is_absolute() else root
    try:
        found = sorted(start.glob(str(path.relative_to(path.anchor))))
    except (ValueError, NotImplementedError, OSError) as error:
        raise PolicyError(f"{text} is not a valid glob: {error}", "write it as in models/**/*.py") from None
    return [file for file in found if file.suffix == ".py" and not _is_hidden(file, start) and file.is_file()]


def _is_hidden(file: Path, start: Path) -> bool:
    parts = file.relative_to(start).parts
    return any(part == "__pycache__" or (part.startswith(".") and part != "..") for part in parts)


def _relative(path: Path, root: Path) -> str:
    """Return a path relative to `root`, as spelled: do not resolve links."""
    return Path(os.path.relpath(path, root)).as_posix()


def _from_here(path: Path) -> str:
    """Return a path as short as possible: relative to the working directory or absolute."""
    here = working_folder()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
