"""What holds the child process of a capture, for a caller that makes several captures at once."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ctrace.inspector.store import Run


@dataclass
class Leash:
    """Lets other threads end the child process of one capture, and knows what it takes."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the child's environment."""
    run: Run | None = None
    """Where the capture is kept, once it began."""
    peak: int = 0
    """Bytes that the child has held at most so far; 0: the system does not tell."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def began(self, run: Run) -> None:
        """Take note of the run, just before the child starts."""
        self.run = run

    def end(self) -> None:
        """Have the child killed, soon."""
        self._ended.set()

    def holds(self, pid: int) -> bool:
        """Look at the child; False: it is to be killed."""
        self.peak = max(self.peak, _peak_of(pid))
        return not self._ended.is_set()


def _peak_of(pid: int) -> int:
    """Read what a process held in memory at most, in bytes; 0: it has ended, or this is no Linux."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "")
    return int(line.split()[1]) * 1024 if line else 0
