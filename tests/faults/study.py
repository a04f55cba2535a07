"""What a class of faults is: how to try it, and what came of one try."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Result(StrEnum):
    """What one try showed."""

    FINE = "fine"
    CRASH = "crash"
    """A traceback of ours, exit code 70, or a hang."""
    LIE = "lie"
    """Something healthy, complete or equal was reported that is not, or the wrong exit code."""
    LOSS = "loss"
    """Something that was on disk, or that another process wrote, is gone."""
    LEFT = "left"
    """A process, a lock or a temporary file outlived the command."""
    SILENT = "silent"
    """A cut that nothing in the log shows; stated, not counted as a lie."""


@dataclass(frozen=True, slots=True)
class Try:
    """One fault, and what came of it."""

    name: str
    result: Result
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a study works with."""

    ctrace: tuple[str, ...]
    """The command line of the ctrace under test, such as `("ctrace",)`."""
    tries: int
    seed: int
    scratch: Path
    """An empty folder."""


@dataclass(frozen=True, slots=True)
class Study:
    """A class of faults."""

    name: str
    full: int
    """Tries of the whole study."""
    run: Callable[[Bench], Iterator[Try]]
