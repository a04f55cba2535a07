"""Modules that ctrace imports before the program does, and the program's own of the same names."""

import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from types import ModuleType


class Preloaded:
    """What was imported for ctrace, and not by Python's own start.

    A `random.py` beside a program is what the program imports as `random`, however unwise. It would find ours instead.
    """

    def __init__(self, before: frozenset[str]) -> None:
        """Know all modules for ours that were not there `before`."""
        self._before = before

    def uncover(self, folder: str) -> dict[str, ModuleType]:
        """Forget those in whose place Python would import a module of `folder`; ours go on using them."""
        ours = {name for name in sys.modules if "." not in name} - self._before
        shadowed = {name for name in ours if _is_in(folder, name)}
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in shadowed}


def _is_in(folder: str, name: str) -> bool:
    """Whether importing `name` finds a file of the folder: before the standard library, but after what is built in."""
    if name in ("ctrace", "__main__") or BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
        return False
    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and spec.has_location
