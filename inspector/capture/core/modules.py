"""Handle modules that ctrace imports first, when the program has its own modules of the same names."""

import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from types import ModuleType


class Preloaded:
    """The modules that ctrace imported after Python's startup.

    A program with a `random.py` beside it imports that file as `random`, but Python would return the module that ctrace
    has imported.
    """

    def __init__(self, before: frozenset[str]) -> None:
        """Count every module that is not in `before` as imported by ctrace."""
        self._before = before

    def uncover(self, folder: str) -> dict[str, ModuleType]:
        """Remove modules that a file of `folder` shadows from `sys.modules`; ctrace keeps its own references."""
        ours = {name for name in sys.modules if "." not in name} - self._before
        shadowed = {name for name in ours if is_in(folder, name)}
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in shadowed}


def is_in(folder: str, name: str) -> bool:
    """Whether importing `name` finds a file in the folder: before the standard library, but after builtin modules."""
    # The order of `sys.meta_path`: builtin, frozen, then folders.
    if name in ("ctrace", "__main__") or BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
        return False
    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and spec.has_location
