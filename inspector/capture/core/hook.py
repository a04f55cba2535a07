"""The interface of a hook of a capture.

A hook is a context manager that takes the `Recorder` and a function `when(module, action)`, which runs `action`
once the program has imported `module`. On exit, it restores whatever it patched.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Protocol

from ctrace.inspector.capture.core.recorder import Recorder


class When(Protocol):
    """Calls `action` with the module after its import, or immediately if it is already imported."""

    def __call__(self, name: str, action: Callable[[ModuleType], None], /) -> None:
        """Run `action` once `name` is imported."""


class Hook(Protocol):
    """A hook on one stage of torch.compile."""

    def __call__(self, recorder: Recorder, when: When, /) -> AbstractContextManager[None]:
        """Install the hook while the context is active."""
        ...
