"""Hash the payloads of a log: of a large one in a second process, which keeps up with the reader."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ctrace.inspector.log import framing

_LARGE = 24 << 20
"""Below this size, one process hashes the payloads before a second one has started."""
_DIGEST = 16
Hasher = Callable[[bytes], bytes]
"""Returns the digest of the next payload that the log has, whose lines are its argument."""


@contextmanager
def hasher(path: Path) -> Iterator[Hasher | None]:
    """Return what hashes the payloads of a log, which must be asked about all of them in order.

    None: the reader hashes them itself.
    """
    if not _is_worth_it(path):
        yield None
        return
    command = [sys.executable, "-I", "-S", framing.__file__, str(path.absolute())]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 16
        )
    except OSError:  # no more processes: it only takes longer
        yield None
        return
    assert child.stdout is not None
    read = child.stdout.read

    def next_digest(raw: bytes) -> bytes:
        found = read(_DIGEST)
        return found if len(found) == _DIGEST else framing.digest_of(raw)

    try:
        yield next_digest
    finally:
        child.stdout.close()
        with suppress(OSError):
            child.kill()
        child.wait()


def _is_worth_it(path: Path) -> bool:
    if (os.cpu_count() or 1) < 2 or not Path(framing.__file__).is_file():
        return False
    with suppress(OSError):
        return path.stat().st_size >= _LARGE
    return False
