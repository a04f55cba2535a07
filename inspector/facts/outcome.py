"""How a run failed, evidence that its log is incomplete, and what its model asked.

Separate from `session.py`, whose import a command does not need to start a program.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.wire import Integer, Record

ENDED_WELL = "exit code 0"
"""How a program ended that Python would call successful."""


class FailurePhase(StrEnum):
    """The phase in which a run failed."""

    TARGET = "target"
    """The target could not be loaded: a wrong name, or inputs that do not fit."""
    LOAD = "load"
    """The user's file raised while it was imported."""
    EAGER = "eager"
    """The model raised without torch.compile."""
    RUN = "run"
    """The compiled model or the program raised."""
    CRASH = "crash"
    """A signal ended the process, or the process exited without cleaning up."""
    TIMEOUT = "timeout"
    INTERRUPT = "interrupt"


_FROM_OUTSIDE = frozenset(("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGXCPU"))
"""Signals that end a process from outside: memory or time ran out, a job was canceled, a terminal closed."""


class Target(Struct, frozen=True):
    """What was run."""

    path: str | None = None
    name: str | None = None
    args: tuple[str, ...] = ()


class Failure(Record, frozen=True):
    """How the user's program failed."""

    KIND: ClassVar[str] = "failure"
    phase: FailurePhase
    type: str
    message: str
    file: str | None = None
    line: Integer | None = None
    todo: str = ""
    """What the user can do about a wrong target; empty for other failures."""

    @property
    def is_cut(self) -> bool:
        """Whether something outside of the program stopped the run, so that the rest of the run is not known."""
        if self.phase in (FailurePhase.TIMEOUT, FailurePhase.INTERRUPT):
            return True
        # If the program sent the signal itself, the failure has a file and line.
        return self.phase is FailurePhase.CRASH and self.type in _FROM_OUTSIDE and self.file is None


NO_END_MARK = "no end mark: cannot tell whether the job finished"
"""The note for a log that only torch wrote: such a log looks the same whether or not the job finished."""


class CutKind(StrEnum):
    """The kind of evidence."""

    COMPILATION = "compilation"
    """A compilation, or a phase of it, that started and did not finish."""
    RUN = "run"
    """A capture that did not finish."""
    LINE = "line"
    """A log that stops in the middle of a line."""
    RECORD = "record"
    """A record that cannot be read: its payload is missing or too short, or the record is damaged."""
    EMPTY = "empty"
    """A log without a record."""
    MISSING = "missing"
    """Another source counts more events than the log has."""
    VALUE = "value"
    """A call that stopped because it asked for a value that does not exist (`--fake`)."""


class CutOff(Struct, frozen=True):
    """One piece of evidence that a log is incomplete."""

    JSON: ClassVar[str] = "kind what unknown compilation"
    kind: CutKind
    what: str
    """One sentence."""
    unknown: str = ""
    """What the log therefore cannot show."""
    compilation: str | None = None
    line: int | None = None
    """The line of the trace log that shows it; None if no single line does."""


class Asked(Struct, frozen=True):
    """Questions of a model's Python code that the kernel does not see; see `capture/core/files_read.py`."""

    variables: tuple[str, ...] = ()
    """Names of the environment variables that were read."""
    all_variables: bool = False
    """Whether the code went through all environment variables."""
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of modules that were looked for in each folder."""
    listed_by_import: Mapping[str, int] = field(default_factory=dict)
    """How often Python's import system listed a folder: only the names in `modules` count there."""
    listed_for_packages: Mapping[str, int] = field(default_factory=dict)
    """How often `importlib.metadata` listed a folder: only the metadata of packages counts there."""
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The files of libraries that were loaded, by folder."""
    prefixes: tuple[str, ...] = ()
    """The folders of libraries, without those that count as the user's."""
    deeds: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """What the code did that nobody can ask again, such as `starts a process`, with its file and line."""
