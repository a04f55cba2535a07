"""Share the free cores among this process and all its forks: a small version of GNU make's job server."""

import os
from contextlib import suppress
from os import close, fstat, read, write
from os.path import samestat

from ctrace.inspector.runs.capture_request import CORES

# Import the functions of os by name: a program may replace the module's attributes.
_ONE = b"."


class Cores:
    """Hands out cores; when a fork ends, the fork or the process that waits for it returns the core."""

    def __init__(self, most: int | None = None) -> None:
        """Hand out as many cores as the system, the user and `most` allow, minus one for the program itself."""
        # Without the affinity, as on macOS, no core is handed out, so that nothing forks.
        count = len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 0
        share = os.environ.get(CORES, "")
        count = min(count, int(share) - 1) if share.isdecimal() else count
        count = count if most is None else min(count, most - 1)
        self._free, self._back = os.pipe()
        self._pipe = fstat(self._free)  # identifies the pipe; both ends have the same status
        os.set_blocking(self._free, False)
        write(self._back, _ONE * max(min(count, 4096), 0))  # any pipe can hold 4096 bytes

    def take(self) -> bool:
        """Take a core if one is free."""
        try:
            return bool(read(self._free, 1))
        except OSError:  # no core is free, or the program closed the pipe
            return False

    def release(self) -> None:
        """Return a core."""
        try:
            write(self._back, _ONE)
        except OSError:  # the program closed the pipe: one process does the rest
            return

    def close(self) -> None:
        """Close the pipe once no fork holds a core."""
        for end in (self._free, self._back):
            with suppress(OSError):  # closed by the program
                if samestat(fstat(end), self._pipe):  # otherwise, another file has reused the number
                    close(end)
        self._free = self._back = -1
