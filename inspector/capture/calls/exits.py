"""Record how the user's code is about to end its process: `os._exit`, `exec`, a signal to itself.

ctrace's code cannot run after these calls, so they are patched while the program runs. An exit from C code leaves no
record; `launch.py` then knows only the exit status.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from os import getpid
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.run_events import ProgramExited
from ctrace.inspector.install_folders import PACKAGES

_OURS = f"{PACKAGES}{os.sep}"
_HARMLESS = {
    getattr(signal, name, 0)
    for name in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU")
}
"""Signals whose default action does not end a process; 0 is no signal."""


@contextmanager
def exits(recorder: Recorder) -> Iterator[None]:
    """Record `exited` when the capturing process ends itself. Exits of its forks are not recorded."""
    # `getpid` is imported by name, since the program may replace `os.getpid`.
    process = getpid()

    def recording(name: str, original: Callable[..., Any], ends: Callable[..., bool]) -> Callable[..., Any]:
        @wraps(original)
        def with_record(*args: Any, **kwargs: Any) -> Any:
            if getpid() == process:
                with recorder.watching("how the program ended itself"):
                    if ends(*args, **kwargs):
                        _note(recorder, name, args, sys._getframe(1))
            return original(*args, **kwargs)

        return with_record

    with ExitStack() as patches:
        for owner, name, ends in _endings(process):
            if hasattr(owner, name):
                with_record = recording(f"{owner.__name__}.{name}", getattr(owner, name), ends)
                patches.enter_context(patched(owner, name, with_record))
        yield


def _endings(process: int) -> Iterator[tuple[Any, str, Callable[..., bool]]]:
    """Yield the functions that can end this process, each with a predicate: whether a call ends it."""
    for name in ("_exit", "execv", "execve", "abort"):
        yield os, name, lambda *_args, **_kwargs: True
    yield os, "kill", lambda pid, number: pid in (process, 0, -os.getpgrp()) and _is_deadly(number)
    yield os, "killpg", lambda group, number: group in (0, os.getpgrp()) and _is_deadly(number)
    yield signal, "raise_signal", _is_deadly
    yield signal, "pthread_kill", lambda _thread, number: _is_deadly(number)


def _is_deadly(number: int) -> bool:
    """Whether a signal ends the process because the program neither handles nor ignores it."""
    return number not in _HARMLESS and signal.getsignal(number) in (signal.SIG_DFL, None)


def _note(recorder: Recorder, name: str, args: tuple[Any, ...], frame: Any) -> None:
    words = ", ".join(_shown(each) for each in (args[:1] if name.startswith("os.exec") else args))
    # `os.execl` and its like call `execv` from Python's frozen module `os`; the user's line is further out.
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_OURS, "<frozen ")):
        frame = frame.f_back
    recorder.add(ProgramExited(f"{name}({words})", frame.f_code.co_filename, frame.f_lineno))


def _shown(value: Any) -> str:
    if isinstance(value, signal.Signals):
        return value.name
    if isinstance(value, int | str | bytes):
        return repr(value)[:80]
    return type(value).__name__
