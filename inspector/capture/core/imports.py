"""Run an action on a module when the user's program imports it, not before (`watch_imports`).

Modules that ctrace itself imports first do not hide the program's own modules of the same names (`Preloaded`).
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from types import ModuleType

Action = Callable[[ModuleType], None]


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds a watched module with the other finders, and wraps its loader to run the actions after the import."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.actions:
            return None
        # The position is looked up each time, since the program may add finders.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            # Old finders, such as those of six before 1.16, have `find_module` alone, which Python 3.12 no longer
            # calls.
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: object) -> None:
        execute = getattr(loader, "exec_module", None)
        # The spec of a namespace package has no loader when a finder returns it.
        if execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for action in self.actions.get(module.__name__, ()):
                action(module)

        # On the instance: the class of the loader serves all other modules.
        loader.exec_module = exec_module  # type: ignore[attr-defined]


@contextmanager
def watch_imports() -> Iterator[Callable[[str, Action], None]]:
    """Yield a function `when(name, action)` that calls `action(module)` after `name` is imported, or now if it is."""
    watcher = _Watcher()

    def when(name: str, action: Action) -> None:
        module = sys.modules.get(name)
        if module is not None:
            action(module)
        else:
            watcher.actions.setdefault(name, []).append(action)

    # First, or another finder answers before us.
    sys.meta_path.insert(0, watcher)
    try:
        yield when
    finally:
        sys.meta_path.remove(watcher)


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
