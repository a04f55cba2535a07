"""Search for old reference cycles less often while torch compiles.

A compile makes many objects that stay: modules imported on the way, graphs, nodes, symbols. Python answers with full
collections, each of which visits all of torch and finds next to nothing. That time is better spent on what a capture
records. torch tells when a compile begins and ends, also one of a backward on its first call
(`CompilationCallbackHandler.install_callbacks`, 2.11 to 2.15, _dynamo/callback.py); after a `torch._dynamo.reset()` of
the program it no longer does, and Python 3.14 has no such threshold: then all is as without ctrace.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.recorder import Recorder

Callback = Callable[..., None]

_FULL = 100
"""Collections of the middle generation before a full one; the default of Python 3.11 to 3.13 is 10."""


class _Threshold:
    """The threshold of full collections; one that the program has set higher, or to 0, stays."""

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def raise_(self, *_about: object) -> None:
        """Make full collections rarer."""
        youngest, middle, full = gc.get_threshold()
        if 0 < full < _FULL:
            self._before = (youngest, middle, full)
            gc.set_threshold(youngest, middle, _FULL)

    def restore(self, *_about: object) -> None:
        """Set the threshold from before, unless the program has changed it meanwhile."""
        before, self._before = self._before, None
        if before is not None and gc.get_threshold() == (*before[:2], _FULL):
            gc.set_threshold(*before)


@contextmanager
def collector(recorder: Recorder, when: When) -> Iterator[None]:
    """Raise the threshold of full collections during each compile."""
    with ExitStack() as registered:

        def install(_dynamo: ModuleType) -> None:
            from torch._dynamo.callback import callback_handler

            threshold = _Threshold()
            with recorder.watching("when a compile begins and ends"):
                # The end first: if the second registration fails, nothing is left raised.
                callback_handler.register_end_callback(threshold.restore)
                registered.callback(_remove, callback_handler.remove_end_callback, threshold.restore)
                callback_handler.register_start_callback(threshold.raise_)
                registered.callback(_remove, callback_handler.remove_start_callback, threshold.raise_)
                # The first to run at the end, since callbacks run in reverse: a capture may end in the middle of a
                # compile.
                registered.callback(threshold.restore)

        when("torch._dynamo", install)
        yield


def _remove(remove: Callable[[Callback], None], callback: Callback) -> None:
    with suppress(ValueError):  # `torch._dynamo.reset()` has removed all of them
        remove(callback)
