"""What one measuring process does: the model, how to compile it, and how to time it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.runs.order import Order

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to compile: a mode or a backend, and options of Inductor."""

    name: str
    mode: str | None = None
    backend: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """As typed; the process that knows torch turns them into values."""


@dataclass(frozen=True, slots=True)
class TimingOrder:
    """One measuring process."""

    capture: Order
    """The model and its inputs; see `inspector/runs/order.py`."""
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

    def to_json(self) -> str:
        """Return the order as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_file(cls, path: Path) -> "TimingOrder":
        """Read an order that `to_json` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not have the form that `to_json` writes.
        """
        return typed(cls, read_object(path), "the order")
