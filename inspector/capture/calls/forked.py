"""A model file that forks: its child must not go on to call the other scenarios, as its parent does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import getpid

from ctrace.inspector.capture.core.recorder import Recorder


@dataclass
class _Owner:
    """The process that calls the model, while it does."""

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
    """End this process if the user's code forked it and came back; only the failure is recorded."""
    for owner in _owners:
        if getpid() != owner.process:
            what = "the model file forked, and the new process came back from its call"
            todo = "End the new process where its work is done, with os._exit, or use multiprocessing."
            owner.recorder.record("failure", {"phase": "crash", "type": "Fork", "message": what, "todo": todo})
            os._exit(1)
