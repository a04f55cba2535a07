"""The cores that nobody uses yet, shared by this process and all its forks: GNU make's job server, in small."""

import os

from ctrace.inspector.order import CORES

_ONE = b"."


class Cores:
    """Hands out cores; a fork that holds one gives it back when it ends, or who waits for it does."""

    def __init__(self) -> None:
        # One core is the program's own.
        count = len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 0
        share = os.environ.get(CORES, "")
        count = min(count, int(share) - 1) if share.isdecimal() else count
        self._free, self._back = os.pipe()
        os.set_blocking(self._free, False)
        os.write(self._back, _ONE * max(min(count, 4096), 0))  # a pipe holds no less

    def take(self) -> bool:
        """Take a core if one is free."""
        try:
            return bool(os.read(self._free, 1))
        except OSError:  # none, or the program closed what it did not open
            return False

    def give(self) -> None:
        """Give one back."""
        try:
            os.write(self._back, _ONE)
        except OSError:  # closed by the program: what follows is done by one process
            return
