"""Effects of a call: what it prints, logs and warns, and which random numbers it draws."""

import io
import logging
import os
import random
import sys
import warnings
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.fix.child.digests import digest, digest_of, without_addresses

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
_NETWORK = ("socket.connect", "socket.bind", "socket.sendto")
_NO_DEED = ("__pycache__", "/dev/null", "/dev/shm/", "/torchinductor_")
"""Parts of paths that Python and torch write without being asked."""


class Effects(Struct):
    """The effects of one call, complete after the block."""

    printed: str = ""
    logged: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)


class Outside:
    """Keeps a call from changing files and from using the network, as far as Python's audit events show it.

    The user did not agree to what a call with odd inputs writes or sends, and two such effects cannot be compared.
    """

    _current: "Outside | None" = None
    _is_listening = False

    def __init__(self, own: str = "") -> None:
        """Allow writes below `own`, a folder of ctrace's; empty: there is none."""
        self._allowed: tuple[str, ...] = _NO_DEED
        if own:
            self._allowed = (*_NO_DEED, own)
        self.deed = ""
        """What a call was kept from doing, such as `write out/x.txt`; empty: nothing."""

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Refuse such deeds during the block."""
        if not Outside._is_listening:  # a hook stays as long as the process
            sys.addaudithook(_hear)
            Outside._is_listening = True
        Outside._current = self
        try:
            yield
        finally:
            Outside._current = None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a deed, and raise instead of it.

        Raises:
            PermissionError: the event is such a deed.
        """
        deed = ""
        if event == "open":
            path, _mode, flags = arguments
            is_written = isinstance(flags, int) and bool(flags & _WRITING) and isinstance(path, str | bytes)
            deed = ""
            if is_written:
                deed = f"write {os.fsdecode(path)}"
        elif event in _CHANGING:
            deed = f"change {arguments[0]}"
        elif event in _NETWORK:
            deed = f"use the network ({arguments[1]})"
        if deed and not any(each in deed for each in self._allowed):
            # The first one is the reason: a program that is refused often tries another way.
            self.deed = self.deed or deed
            raise PermissionError(f"ctrace keeps a call with odd inputs from this: {deed}")


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    current = Outside._current
    if current is not None:
        current.hear(event, arguments)


@contextmanager
def noting_effects() -> Iterator[Effects]:
    """Record what the block prints, logs and warns, and show none of it."""
    effects = Effects()
    out, err = io.StringIO(), io.StringIO()
    # After the check of levels and before the handlers, so that each record that is logged is seen once.
    original = logging.Logger.handle

    def handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.name.startswith(
            ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch._logging")
        ):
            # What torch tells of compiling differs between the runs, and is not the program's.
            original(self, record)
            return
        effects.logged.append(f"{record.name} {record.levelname}: {without_addresses(record.getMessage())}")

    stdout, stderr = sys.stdout, sys.stderr
    with warnings.catch_warnings(record=True) as caught, patched(logging.Logger, "handle", handle):
        # Python shows a warning once a place, and the calls of one run would then hide those of the other.
        warnings.simplefilter("always")
        sys.stdout, sys.stderr = out, err
        try:
            yield effects
        finally:
            sys.stdout, sys.stderr = stdout, stderr
            effects.printed = without_addresses(out.getvalue() + err.getvalue())
    effects.warned = [f"{each.category.__name__}: {without_addresses(str(each.message))}" for each in caught]


def random_digest() -> str:
    """Return a digest of the state of all generators."""
    import torch

    version, words, gauss = random.getstate()
    parts = [digest(torch.get_rng_state()), f"{version} {array('L', words).tobytes().hex()} {gauss}"]
    # Only if the program has it: importing it here would change what the program imports.
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        parts.append(f"{kind} {keys.tobytes().hex()} {rest}")
    # Asking for a generator would set up the GPU, which takes memory and time.
    if torch.cuda.is_initialized():
        parts += [digest(each) for each in torch.cuda.get_rng_state_all()]
    return digest_of(parts)
