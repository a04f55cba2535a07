"""What was run and how it failed: what a command needs to know to start a program, and `model.py` all the rest."""

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Target:
    """What was run."""

    path: str | None = None
    name: str | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """How the user's program failed."""

    phase: FailurePhase
    type: str
    message: str
    file: str | None = None
    line: int | None = None
    todo: str = ""
    """For a wrong target: what to do about it."""
