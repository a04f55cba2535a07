"""The request to one measuring process: the model, how to compile it, and how to time it."""

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field, to_builtins

from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.runs.capture_request import CaptureRequest

Value = bool | int | float | str


class CompileConfiguration(Struct, frozen=True):
    """One way to compile: a mode or a backend, and options of Inductor."""

    name: str
    mode: str | None = None
    backend: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """The options as text; the measuring process converts them to torch's types."""


class TimingRequest(Struct, frozen=True):
    """The request to one measuring process."""

    capture: CaptureRequest
    """The model and its inputs; see `inspector/runs/capture_request.py`."""
    configuration: CompileConfiguration
    results: str
    """The file to which the process appends its results."""
    known: tuple[CompileConfiguration, ...] = ()
    """All configurations of the command, whose names the first process checks."""
    rounds: int | None = None
    """The number of rounds; None for as many as the noise requires."""
    threads: int | None = None
    """The number of threads; None for torch's default."""
    fresh: bool = False
    """Whether every call gets new inputs, created outside of the timed blocks."""
    only_compile: bool = False
    """Whether to measure only the first calls, for the compile time."""
    brief: bool = False
    """Whether to compare only the first part of the first scenario, without profiling it."""

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
