"""Start ctrace with a mark that all its processes inherit, and find those that outlive it."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MARK = "FAULTS_TREE"
"""An environment variable: it survives changes of session, group and parent."""
LIMIT_SECONDS = 2.0
"""How long a process may outlive the command."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A running command with all its descendants."""

    process: "subprocess.Popen[bytes]"
    mark: str
    out: IO[bytes]
    err: IO[bytes]

    def members(self) -> list[int]:
        """Find all processes with the mark, however they were started."""
        wanted = f"{MARK}={self.mark}".encode()
        return [pid for pid in _pids() if wanted in _bytes(f"/proc/{pid}/environ").split(b"\0")]

    def left(self) -> list[str]:
        """Wait for the time limit, and list the processes that are still alive."""
        until = time.monotonic() + LIMIT_SECONDS
        while (found := self.members()) and time.monotonic() < until:
            time.sleep(0.05)
        return [_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")[:80] for pid in found]

    def output(self) -> tuple[str, str]:
        """Return the command's stdout and stderr so far."""
        return tuple(Path(file.name).read_bytes().decode(errors="replace") for file in (self.out, self.err))  # type: ignore[return-value]


@contextmanager
def tree(command: list[str], folder: Path, **environment: str) -> Iterator[Tree]:
    """Start a command in a new session without a terminal; at the end of the block, kill what is left."""
    mark = uuid.uuid4().hex
    with (folder / f"{mark}.out").open("wb") as out, (folder / f"{mark}.err").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, MARK: mark, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_hear_signals,
        )
        each = Tree(process, mark, out, err)
        try:
            yield each
        finally:
            for pid in each.members():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _hear_signals() -> None:
    """Restore the default handlers: a script's background jobs ignore SIGINT, and nohup ignores SIGHUP."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _pids() -> list[int]:
    return [
        int(name)
        for name in os.listdir("/proc")  # noqa: PTH208
        if name.isdecimal()
    ]


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
