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
"""A variable of the environment: sessions, groups and parents change, it stays."""
LIMIT_SECONDS = 2.0
"""How long anything may outlive the command."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A command under way, with all that descends from it."""

    process: "subprocess.Popen[bytes]"
    mark: str
    out: IO[bytes]
    err: IO[bytes]

    def members(self) -> list[int]:
        """Find all processes that bear the mark, however they were started."""
        wanted = f"{MARK}={self.mark}".encode()
        return [pid for pid in _pids() if wanted in _bytes(f"/proc/{pid}/environ").split(b"\0")]

    def left(self) -> list[str]:
        """Wait as long as anything may live; name what still does."""
        until = time.monotonic() + LIMIT_SECONDS
        while (found := self.members()) and time.monotonic() < until:
            time.sleep(0.05)
        return [_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")[:80] for pid in found]

    def said(self) -> tuple[str, str]:
        """Read what it wrote so far to stdout and stderr."""
        return tuple(Path(file.name).read_bytes().decode(errors="replace") for file in (self.out, self.err))  # type: ignore[return-value]


@contextmanager
def tree(command: list[str], folder: Path, **environment: str) -> Iterator[Tree]:
    """Start a command in a session of its own, without a terminal; kill whatever is left at the end of the block."""
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
    """Begin with the usual handlers: who runs this in the background of a script has SIGINT ignored, as nohup SIGHUP."""
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
