"""Start a function of ctrace in a new Python process, like one that the user would start."""

import os
import sys
from collections.abc import Iterator

from ctrace.inspector.install_folders import HOME

# `-c` puts the working directory first on the path, where files could shadow modules that ctrace imports. HOME is not
# on the path either: it may contain modules that the user's Python finds elsewhere, or not at all.
_BOOT = """\
import sys
loaded = frozenset(sys.modules)
if not sys.flags.safe_path:
    del sys.path[0]
from importlib._bootstrap_external import spec_from_file_location
from importlib._bootstrap import module_from_spec
home, module, function = sys.argv[1:4]
del sys.argv[1:4]
spec = spec_from_file_location("ctrace", home + "/ctrace/__init__.py", submodule_search_locations=[home + "/ctrace"])
sys.modules["ctrace"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["ctrace"])
import importlib
getattr(importlib.import_module(module), function)(loaded)
"""


def python(module: str, *arguments: str, function: str = "main") -> list[str]:
    """Return the command that calls `<module>.<function>` in a new Python.

    The function gets the names of the modules that Python had imported before ctrace.
    """
    return [sys.executable, *options(sys.orig_argv), "-c", _BOOT, str(HOME), module, function, *arguments]


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
