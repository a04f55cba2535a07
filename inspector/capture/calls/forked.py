"""Handle a model file that forks: the child must not call the remaining scenarios as its parent does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import getpid

from msgspec import Struct

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.outcome import Failure, FailurePhase


class _Owner(Struct):
    """The process that is calling the model."""

    process: int
    recorder: Recorder


_owners: list[_Owner] = []


@contextmanager
def in_this_process(recorder: Recorder) -> Iterator[None]:
    """Let only this process return from the user's code in this block."""
    _owners.append(_Owner(getpid(), recorder))
    try:
        yield
    finally:
        end_if_forked()
        _owners.pop()


def end_if_forked() -> None:
    """Record a failure and end this process if it is a fork that returned from the user's code."""
    for owner in _owners:
        if getpid() != owner.process:
            what = "the model file forked, and the child process returned from the call"
            todo = "End the child process with os._exit when its work is done, or use multiprocessing."
            owner.recorder.add(Failure(FailurePhase.CRASH, "Fork", what, todo=todo))
            os._exit(1)
