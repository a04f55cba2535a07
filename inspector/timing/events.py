"""What a measuring process records, one JSON object a line; times in seconds, memory in bytes.

The file is complete up to the last line at any moment, so that a process that is stopped, crashes or runs out of time
loses nothing that it measured.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct, field, to_builtins

from ctrace.inspector.files.typed_json import typed

SIDES = ("eager", "compiled")


class Setup(Struct, frozen=True):
    """The process: versions, the device that it computes on, and what it is about to measure."""

    torch: str
    python: str
    device: str
    """`cpu`, or the name of the GPU."""
    threads: int
    """Threads that an op may use on the CPU."""
    cores: int
    """Cores that the process may run on."""
    scenarios: tuple[str, ...]
    parts: tuple[str, ...]
    """`forward`, `backward`, `step`."""


class WarmedUp(Struct, frozen=True):
    """The calls of one side before the first round."""

    scenario: str
    part: str
    side: str
    seconds: tuple[float, ...]
    compiled: tuple[int, ...]
    """The calls that compiled something, by index."""
    recorded: int
    """How many CUDA graphs they recorded."""
    settled: bool


class RoundDone(Struct, frozen=True):
    """The time of a call of each side, in one round."""

    scenario: str
    part: str
    eager: float
    compiled: float
    clean: bool = True
    """Whether nothing was compiled during the round."""


class Peaks(Struct, frozen=True):
    """The most memory that tensors of a call take, beyond what was taken before it; None: not measured."""

    scenario: str
    part: str
    eager: int | None
    compiled: int | None


class KernelUsed(Struct, frozen=True):
    """A kernel of a compiled call: how often it runs, and how long all its runs take."""

    name: str
    times: float
    seconds: float


class SharesMeasured(Struct, frozen=True):
    """Where the time of a call goes, measured with the profiler on; None: not measured."""

    scenario: str
    part: str
    side: str
    call: float
    """A call with the profiler on, which slows it down."""
    guards: float | None = None
    runtime: float | None = None
    """Dynamo's and AOTAutograd's code around the graph."""
    wrapper: float | None = None
    """The Python code that Inductor wrote to call the kernels."""
    launches: float | None = None
    """The CPU's time to launch kernels on the GPU."""
    ops: float | None = None
    """The CPU's time in ops of torch, outside of launches; on a CPU, they are the kernels."""
    kernels: float | None = None
    """On a GPU, the time that it computes; on a CPU, the time in C++ kernels."""
    gaps: float | None = None
    """The time that the GPU waits."""
    launched: float | None = None
    """Kernels and CUDA graphs that a call launches."""
    kernel_list: tuple[KernelUsed, ...] = ()


class Differed(Struct, frozen=True):
    """The largest difference between eager and compiled results, relative to the largest eager value."""

    scenario: str
    difference: float | None
    why: str = ""
    """Why there is none."""


class Skipped(Struct, frozen=True):
    """A reason for which torch did not use a CUDA graph."""

    reason: str
    times: int


class Compiled(Struct, frozen=True):
    """What the compiler made, after all calls."""

    graphs: int
    breaks: int
    cuda_graphs: str
    """`off`, `recorded`, `skipped`, `partly` or `not_on_cpu`."""
    recordings: int = 0
    pool: int | None = None
    """Bytes of the memory pools that CUDA graphs own."""
    skips: tuple[Skipped, ...] = ()


class Noted(Struct, frozen=True):
    """Something about a scenario that the reader of its times must know."""

    scenario: str
    kind: str
    text: str = ""


class Failed(Struct, frozen=True):
    """How a process or a scenario failed."""

    phase: str
    type: str
    message: str
    scenario: str | None = None
    file: str | None = None
    line: int | None = None
    todo: str = ""


class AutotuningPrinted(Struct, frozen=True):
    """What torch printed of the choices that it timed."""

    text: str


class Done(Struct, frozen=True):
    """The process measured all that it was asked for."""

    peak: int = 0
    """Unused; a JSON object needs a field to be extended later."""


Event = (
    Setup | WarmedUp | RoundDone | Peaks | SharesMeasured | Differed | Compiled | Noted | Failed | AutotuningPrinted
    | Done
)  # fmt: skip
_KINDS: Mapping[str, type[Any]] = {each.__name__: each for each in get_args(Event)}


def line_of(event: Event) -> bytes:
    """Return an event as one line of JSON."""
    return f"{json.dumps({'event': type(event).__name__, **to_builtins(event)})}\n".encode()


class Results(Struct):
    """Reads the file of a process, while it grows; a line that is not one of ours is counted, not read."""

    path: Path
    damaged: int = 0
    _offset: int = field(default=0)
    _rest: bytes = field(default=b"")

    def new(self) -> Iterator[Event]:
        """Yield the events since the last call.

        Raises:
            OSError: the file cannot be read.
        """
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                yield _event(line)
            except (ValueError, RecursionError):
                self.damaged += 1


def _event(line: bytes) -> Event:
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("not an object")  # noqa: TRY004 - a damaged line
    kind = _KINDS.get(str(data.pop("event", "")))
    if kind is None:
        raise ValueError("an unknown event")
    found: Event = typed(kind, data, "an event")
    return found
