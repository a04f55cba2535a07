"""What one measuring process does: the model, how to compile it, and how to time it."""

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field, to_builtins

from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.runs.request import CaptureRequest

Value = bool | int | float | str


class Configuration(Struct, frozen=True):
    """One way to compile: a mode or a backend, and options of Inductor."""

    name: str
    mode: str | None = None
    backend: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """As typed; the process that knows torch turns them into values."""


class TimingRequest(Struct, frozen=True):
    """One measuring process."""

    capture: CaptureRequest
    """The model and its inputs; see `inspector/runs/request.py`."""
    configuration: Configuration
    results: str
    """The file that the process appends its results to."""
    known: tuple[Configuration, ...] = ()
    """All configurations of the command: the first process refuses the unknown names among them."""
    rounds: int | None = None
    """None: as many as it takes."""
    threads: int | None = None
    """None: as many as torch chooses."""
    fresh: bool = False
    """Whether every call gets new inputs, made between the timed blocks."""
    only_compile: bool = False
    """Whether to measure the first calls only, for the compile time."""
    brief: bool = False
    """Whether to compare the first part of the first scenario only, without profiling it."""

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps(to_builtins(self))

    @classmethod
    def from_file(cls, path: Path) -> "TimingRequest":
        """Read a request that `to_json` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not have the form that `to_json` writes.
        """
        return typed(cls, read_object(path), "the request")
