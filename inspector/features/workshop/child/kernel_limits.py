"""End a kernel that does not end: nothing else in its process can, whether it runs on a GPU or in an interpreter."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from ctrace.inspector.capture.calls.answering import answer_now

_LONGEST = threading.TIMEOUT_MAX


@contextmanager
def limited(seconds: float, late: Callable[[], Struct]) -> Iterator[None]:
    """End this process with the answer `late()` if the block takes longer than some seconds."""
    timer = threading.Timer(min(seconds, _LONGEST), lambda: answer_now(late()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def too_long(seconds: float) -> str:
    """Say that a kernel was ended."""
    return f"no result within {seconds:g} s; if it only needs longer, allow more with --timeout SECONDS"
