"""Run another program for its output; like a capture, the program ends with the command line."""

import os
import tempfile
import time
from collections.abc import Sequence

from msgspec import Struct

from ctrace.inspector.processes.spawned import started


class ToolOutput(Struct, frozen=True):
    """The output and exit status of a program."""

    status: int
    """Its exit code, or the negative signal."""
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Its stdout as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def last_line(self) -> str:
        """The last line of its stderr."""
        return (self.err.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]


def answer_of(command: Sequence[str], seconds: float, data: bytes = b"") -> ToolOutput:
    """Run a command, whose first word is a path, with `data` on its stdin.

    Raises:
        TimeoutError: it ran longer than `seconds` and was killed.
        OSError: the system cannot start it.
    """
    # Files, not pipes: nobody must read while the program writes.
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(data)
        stdin.seek(0)
        process = started(command, os.environ, out, err, stdin=stdin)
        until = time.monotonic() + seconds
        try:
            while (status := process.poll(0.05)) is None:
                if time.monotonic() > until:
                    msg = f"still running after {seconds:g} s"
                    raise TimeoutError(msg)
            process.finish()
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return ToolOutput(status, out.read(), err.read())
