"""Adopt and kill the processes that a killed watcher leaves behind.

This process is a subreaper only while it captures: it may belong to the user, such as a test runner.
"""

import ctypes
import os
import threading
from collections.abc import Callable

from ctrace.inspector.processes import watcher

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h
_lock = threading.Lock()
_open: "set[Orphans]" = set()
_was_subreaper = False
_others: frozenset[int] = frozenset()


class Orphans:
    """Adopts the processes of one watcher if that watcher dies."""

    def __init__(self, watcher_pid: int) -> None:
        self._watcher = watcher_pid
        with _lock:
            if not _open:
                _begin()
            _open.add(self)

    def kill(self) -> None:
        """Kill adopted children, which this process did not start, with all their descendants."""
        with _lock:
            ours = {each._watcher for each in _open} | _others
        adopted: set[int] = set()

        def below() -> list[int]:
            adopted.update(set(_children()) - ours)
            return [pid for each in adopted for pid in (each, *watcher.descendants(each))]

        watcher.kill_all(below, _reaping(lambda: set(_children()) - ours, adopted))

    def close(self) -> None:
        """Stop adopting; the last instance restores the process's subreaper setting."""
        with _lock:
            if self in _open:
                _open.remove(self)
                if not _open:
                    _end()


def _reaping(unknown: Callable[[], set[int]], adopted: set[int]) -> Callable[[], bool]:
    def reap() -> bool:
        for pid in list(adopted):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0]
            except ChildProcessError:
                ended = pid
            if ended:
                adopted.discard(pid)
        return bool(adopted or unknown())

    return reap


def _children() -> list[int]:
    return watcher.children(os.getpid())


def _begin() -> None:
    global _was_subreaper, _others
    found = ctypes.c_int()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    _was_subreaper, _others = bool(found.value), frozenset(_children())
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end() -> None:
    if not _was_subreaper:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
