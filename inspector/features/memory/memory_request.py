"""What `ctrace memory` asks of its child process."""

from msgspec import Struct

from ctrace.inspector.facts.memory_facts import FoundMemory
from ctrace.inspector.facts.wire import Integer
from ctrace.inspector.runs.capture_request import CaptureRequest


class MemoryRequest(Struct, frozen=True):
    """The request to the child process."""

    capture: CaptureRequest
    calls: int = 0
    """How many equal calls to make, to see what stays alive after each; 0: none beyond those for the peak."""
    tries_options: bool = False
    """Whether to try what may lower the peak."""
    budget: float = 60.0
    """The seconds after which no further option is tried."""
    fit: str = ""
    """What to enlarge until it no longer fits: `batch`, or `0.1` for dimension 1 of the first input; empty: nothing."""
    limit: int | None = None
    """The bytes that it has to fit into; None: those of the device that the model runs on."""
    limited_by: str = ""
    """What has that limit, such as `h100`."""
    is_eager: bool = False
    """Whether to run a program without compiling anything."""
    entered: tuple[tuple[str, Integer, str], ...] = ()
    """The functions that are compiled otherwise: file, first line and name."""
    without_gradients: bool = False
    """Whether to run a program under `torch.no_grad()`."""


class SavedAt(Struct, frozen=True):
    """What a line saves for the backward."""

    file: str | None
    line: Integer | None
    bytes: Integer
    """The most at one time."""
    sizes: tuple[Integer, ...]
    """Of each tensor."""


class RunMemory(Struct, frozen=True):
    """The memory of one run of a program, eager or compiled."""

    found: FoundMemory
    saved: tuple[SavedAt, ...] = ()
    saved_bytes: Integer = 0
    """The most that all lines save at one time."""
    entered: tuple[tuple[str, Integer, str], ...] = ()
    """The functions that are compiled."""
    backwards: Integer = 0
    """How often a backward ran in a program."""
