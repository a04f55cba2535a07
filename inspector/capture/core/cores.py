"""The cores that nobody uses yet, shared by this process and all its forks: GNU make's job server, in small."""

import os
from contextlib import suppress
from os import close, fstat, read, write
from os.path import samestat

from ctrace.inspector.runs.order import CORES

# Functions of os by their own names: a program may replace those of the module.
_ONE = b"."


class Cores:
    """Hands out cores; a fork that holds one gives it back when it ends, or who waits for it does."""

    def __init__(self, most: int | None = None) -> None:
        """Hand out what the system, the user and `most` allow; one core is the program's own."""
        count = len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 0
        share = os.environ.get(CORES, "")
        count = min(count, int(share) - 1) if share.isdecimal() else count
        count = count if most is None else min(count, most - 1)
        self._free, self._back = os.pipe()
        self._pipe = fstat(self._free)  # of both ends
        os.set_blocking(self._free, False)
        write(self._back, _ONE * max(min(count, 4096), 0))  # a pipe holds no less

    def take(self) -> bool:
        """Take a core if one is free."""
        try:
            return bool(read(self._free, 1))
        except OSError:  # none, or the program closed what it did not open
            return False

    def give(self) -> None:
        """Give one back."""
        try:
            write(self._back, _ONE)
        except OSError:  # closed by the program: what follows is done by one process
            return

    def close(self) -> None:
        """Let go of the pipe once no fork is left that holds a core."""
        for end in (self._free, self._back):
            with suppress(OSError):  # closed by the program
                if samestat(fstat(end), self._pipe):  # else it has another file by that number
                    close(end)
        self._free = self._back = -1
