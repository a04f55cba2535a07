"""What a source of a capture is.

A source is a context manager that gets the `Recorder` and `when(module, action)`, which runs `action` once the
program has imported `module`. Whatever it patches it puts back when it is left.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Protocol

from ctrace.inspector.capture.core.recorder import Recorder


class When(Protocol):
    """Calls `action` with the module once it is imported, or at once if it is already."""

    def __call__(self, name: str, action: Callable[[ModuleType], None], /) -> None:
        """Wait for `name`."""


class Source(Protocol):
    """A hook on one stage of torch.compile."""

    def __call__(self, recorder: Recorder, when: When, /) -> AbstractContextManager[None]:
        """Install the hook while in the context."""
        ...
