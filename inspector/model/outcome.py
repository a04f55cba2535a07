"""What was run and how it failed: what a command needs to know to start a program, and `model.py` all the rest."""

from enum import StrEnum

from msgspec import Struct


class FailurePhase(StrEnum):
    """What was going on when a run failed."""

    TARGET = "target"
    """The target could not be loaded as asked: a wrong name, inputs that do not fit."""
    LOAD = "load"
    """The user's file raised while it was imported."""
    EAGER = "eager"
    """The model raised without torch.compile."""
    RUN = "run"
    """The compiled model or the program raised."""
    CRASH = "crash"
    """The process ended by a signal, or without a word."""
    TIMEOUT = "timeout"
    INTERRUPT = "interrupt"


_FROM_OUTSIDE = frozenset(("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGXCPU"))
"""Signals that end a process from outside: memory or time ran out, a job was canceled, a terminal closed."""


class Target(Struct, frozen=True):
    """What was run."""

    path: str | None = None
    name: str | None = None
    args: tuple[str, ...] = ()


class Failure(Struct, frozen=True):
    """How the user's program failed."""

    phase: FailurePhase
    type: str
    message: str
    file: str | None = None
    line: int | None = None
    todo: str = ""
    """For a wrong target: what to do about it."""

    @property
    def is_cut(self) -> bool:
        """Whether the run was stopped from outside, so that nothing is known of how it would have gone on."""
        if self.phase in (FailurePhase.TIMEOUT, FailurePhase.INTERRUPT):
            return True
        # A signal that the program sent itself has a place.
        return self.phase is FailurePhase.CRASH and self.type in _FROM_OUTSIDE and self.file is None
