"""Count what torch compiles and records while a model is called, with torch's own callbacks.

Torch calls them when a compilation, a delayed backward or the recording of a CUDA graph begins, and not in any other
call (_dynamo/callback.py, 2.11 to 2.13).
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RECORDING = "CUDAGRAPH_RECORDING"


class Compilations:
    """Counts compilations and recordings of CUDA graphs."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count in this block."""
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._began)
        try:
            yield
        finally:
            callback_handler.remove_start_callback(self._began)

    def _began(self, arguments: Any = None) -> None:
        self._counts[str(getattr(getattr(arguments, "callback_trigger", None), "name", "DYNAMO"))] += 1

    @property
    def recordings(self) -> int:
        """CUDA graphs recorded so far."""
        return self._counts[_RECORDING]

    @property
    def total(self) -> int:
        """All compilations and recordings so far."""
        return self._counts.total()
