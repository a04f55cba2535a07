"""Start a function of ctrace in a new Python process, like one that the user would start."""

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from ctrace.inspector.install_folders import HOME

# `-c` puts the working directory first on the path, where files could shadow modules that ctrace imports. HOME is not
# on the path either: it may contain modules that the user's Python finds elsewhere, or not at all.
_BOOT = """\
import sys
loaded = frozenset(sys.modules)
if not sys.flags.safe_path:
    del sys.path[0]
{paths}from importlib._bootstrap_external import spec_from_file_location
from importlib._bootstrap import module_from_spec
home, module, function = sys.argv[1:4]
del sys.argv[1:4]
spec = spec_from_file_location("ctrace", home + "/ctrace/__init__.py", submodule_search_locations=[home + "/ctrace"])
sys.modules["ctrace"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["ctrace"])
import importlib
getattr(importlib.import_module(module), function)(loaded)
"""
_PACKAGES = ("site-packages", "dist-packages")


class Interpreter(NamedTuple):
    """A Python that is not necessarily ours, and folders of packages for its processes alone."""

    executable: str
    first: tuple[str, ...] = ()
    """Folders whose packages come before the installed ones, but after the standard library."""
    last: tuple[str, ...] = ()
    """Folders for packages that are not installed."""

    @property
    def paths(self) -> str:
        """Return the statements that put the folders on `sys.path`."""
        if not self.first and not self.last:
            return ""
        ends = tuple(f"/{name}" for name in _PACKAGES)
        at = f"next((at for at, each in enumerate(sys.path) if each.endswith({ends!r})), len(sys.path))"
        return f"at = {at}\nsys.path[at:at] = {list(self.first)!r}\nsys.path += {list(self.last)!r}\ndel at\n"


def python(module: str, *arguments: str, function: str = "main", interpreter: Interpreter | None = None) -> list[str]:
    """Return the command that calls `<module>.<function>` in a new Python, by default the one that runs ctrace.

    The function gets the names of the modules that Python had imported before ctrace.
    """
    found = interpreter or Interpreter(sys.executable)
    code = _BOOT.replace("{paths}", found.paths)
    return [found.executable, *options(sys.orig_argv), "-c", code, str(HOME), module, function, *arguments]


def options(command: list[str]) -> list[str]:
    """Return the interpreter options of a Python command line, such as `-X dev` and `-W error`."""
    return list(_options(command[1:]))


def _options(words: list[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            return
        if word.startswith("--"):
            yield from (word, next(rest, "")) if word == "--check-hash-based-pycs" else (word,)
            continue
        letters, value, ends = _split(word[1:])
        if letters:
            yield f"-{letters}"
        if value:
            yield from (value, next(rest, "")) if len(value) == 2 else (value,)
        if ends:
            return


def _split(letters: str) -> tuple[str, str, bool]:
    """Split the letters after a `-` into flags and an option with a value; tell whether a program follows.

    Drop `-i`, `-x` and other flags that make no sense with `-c`.
    """
    flags = ""
    for at, letter in enumerate(letters):
        if letter in "WX":
            return flags, f"-{letters[at:]}", False
        if letter in "cm":
            return flags, "", True
        if letter not in "ixhV?":
            flags += letter
    return flags, "", False


def displayed(command: list[str]) -> list[str]:
    """Return the start of `sys.orig_argv` in a Python process that runs a program with the same options."""
    return [os.fspath(sys.executable), *options(command)]
