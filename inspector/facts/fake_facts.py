"""How large a model is, and what a run without weights (`--fake`) assumed about values that do not exist."""

from enum import StrEnum
from typing import ClassVar

from ctrace.inspector.facts.wire import Integer, Record


class ModelLoaded(Record, frozen=True):
    """The size of a model file's target, after it was loaded."""

    KIND: ClassVar[str] = "model_loaded"
    JSON: ClassVar[str] = "left=layers cut=layers_cut"
    fake: bool
    """Whether its parameters have no storage."""
    parameters: Integer | None = None
    """The number of elements of all parameters, tied ones once; None: the target is a function, or is lazy."""
    parameter_bytes: Integer | None = None
    layers: Integer | None = None
    """How many layers `--layers` left of each list of modules; None: all."""
    layers_cut: Integer = 0
    """How many layers it cut, in all lists together."""


class AssumedFrom(StrEnum):
    """Where an assumed value comes from."""

    USER = "user"
    """`--assume`."""
    SMALL_RUN = "small_run"
    """A run of the model at a small size, with real values."""
    SYMBOL = "symbol"
    """Nowhere: torch carries an unbacked symbol in its place."""


class Assumed(Record, frozen=True):
    """A value that does not exist, and what the run went on with."""

    KIND: ClassVar[str] = "assumed"
    JSON: ClassVar[str] = "file|relative line column expression value from=origin"
    file: str
    line: Integer
    column: Integer | None
    """Counted from 1; None: not known."""
    expression: str
    value: str
    origin: AssumedFrom


class Stopped(Record, frozen=True):
    """A place that asked for a value that does not exist, so that the call stopped there."""

    KIND: ClassVar[str] = "stopped"
    JSON: ClassVar[str] = "file|relative line column asked todo"
    file: str
    line: Integer
    column: Integer | None
    asked: str
    todo: str
    """How the call goes on."""
