"""How the capturing process started: as a new process, or as a fork of one that had already imported torch.

If a fork finds that a new process would behave differently, it ends and asks for a new process.
"""

import builtins
import posix
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import _exit, getpid
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.imports import is_in
from ctrace.inspector.processes.forking import RESTART
from ctrace.inspector.runs.capture_request import CaptureRequest


class ProcessStart:
    """The start of the capturing process; `imported` are the top-level modules that a fork's parent looked for."""

    def __init__(self, imported: Sequence[str] = ()) -> None:
        self._imported = imported

    @contextmanager
    def loading(self, request: CaptureRequest) -> Iterator[None]:
        """Let the block load the model; if a new process would load it differently, ask for one and end this one.

        Loading would differ if the model changes environment variables, which torch reads while it is imported, or how
        modules are found, because a new process imports half of torch after the model. It would also differ if a folder
        of the import path has a module that hides one that torch imports.
        """
        if not self._imported:
            yield
            return
        process = getpid()
        before = _ImportState.now()
        if request.path is None:
            folder = Path.cwd()
        else:
            folder = Path(request.path).resolve().parent
        # Before the model is loaded, which may take minutes.
        self._restart_if(self._hides(str(folder)))
        try:
            yield
        finally:
            # A fork of the model file is no start of a capture.
            if getpid() == process:
                # The folder of the file is there because ctrace put it there, and was asked about above.
                added = [each for each in sys.path if each not in before.path and each != str(folder)]
                self._restart_if(not before.still_holds() or any(map(self._hides, added)))

    def _hides(self, folder: str) -> bool:
        return any(is_in(folder, name) for name in self._imported)

    @staticmethod
    def _restart_if(is_different: bool) -> None:
        if is_different:
            _exit(RESTART)


class _ImportState(Struct, frozen=True):
    """The state that decides how torch is imported."""

    variables: dict[bytes, bytes]
    path: tuple[str, ...]
    modules: dict[str, Any]
    finders: tuple[Any, ...]
    function: Any
    strict: int
    """How many filters turn warnings into errors."""

    @classmethod
    def now(cls) -> "_ImportState":
        """Return the current state."""
        strict = sum(each[0] == "error" for each in warnings.filters)
        finders = tuple(sys.meta_path)
        variables = dict(posix.environ)  # what `os.environ` reads: our own look is no question of the program
        return cls(variables, tuple(sys.path), dict(sys.modules), finders, builtins.__import__, strict)

    def still_holds(self) -> bool:
        """Whether torch would still be imported the same way; new path entries and new modules do not change that."""
        now = self.now()
        # A module that was exchanged or removed would be imported again by a new process; additions only make it
        # warmer.
        kept = all(now.modules.get(name, self) is module for name, module in self.modules.items())
        same = (now.variables, now.function) == (self.variables, self.function)
        old = tuple(each for each in now.finders if each in self.finders)
        added = [each for each in now.finders if each not in self.finders]
        return (
            kept
            and same
            and set(self.path) <= set(now.path)
            and now.strict <= self.strict
            and old == self.finders
            and not any(_finds(each, self.modules) for each in added)
        )


def _finds(finder: Any, modules: dict[str, Any]) -> bool:
    """Whether a new finder, such as a library's for its own modules, could find one of these modules instead."""
    try:
        for name in modules:
            parent = modules.get(name.rpartition(".")[0])
            if finder.find_spec(name, getattr(parent, "__path__", None), None) is not None:
                return True
    except Exception:  # the finder is the program's code
        return True
    return False


NEW = ProcessStart()
"""The start of a new process."""
