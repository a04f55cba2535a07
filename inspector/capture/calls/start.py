"""How this process came to capture: as a new process, or as a fork of one that had already imported torch.

A fork that finds out that a new process would behave differently ends, and asks for one.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import _exit, getpid
from pathlib import Path

from ctrace.inspector.capture.core.modules import is_in
from ctrace.inspector.processes.forking import RESTART
from ctrace.inspector.runs.request import CaptureRequest


class Start:
    """The start of the capturing process; `imported` are the top-level modules that a fork's parent looked for."""

    def __init__(self, imported: Sequence[str] = ()) -> None:
        self._imported = imported

    @contextmanager
    def loading(self, request: CaptureRequest) -> Iterator[None]:
        """Load the model in this block. If a new process would load it differently, ask for one and end.

        That is so if the load changes environment variables, which torch reads while it is imported, or if a folder of
        the import path has a module that hides one that torch imports.
        """
        if not self._imported:
            yield
            return
        process, variables, path = getpid(), dict(os.environ), list(sys.path)
        folder = Path.cwd() if request.path is None else Path(request.path).resolve().parent
        self._restart_if(self._hides(str(folder)))
        try:
            yield
        finally:
            if getpid() == process:
                added = [each for each in sys.path if each not in path and each != str(folder)]
                self._restart_if(dict(os.environ) != variables or any(map(self._hides, added)))

    def _hides(self, folder: str) -> bool:
        return any(is_in(folder, name) for name in self._imported)

    @staticmethod
    def _restart_if(is_different: bool) -> None:
        if is_different:
            _exit(RESTART)


NEW = Start()
"""The start of a new process."""
