"""The events that a measuring process records, one JSON object per line; times in seconds, memory in bytes.

Every line but the last is complete at any time, so that a process that crashes or is stopped loses no measurement.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

from msgspec import Struct, field, to_builtins

from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.files.typed_json import typed

SIDES = ("eager", "compiled")


class Setup(Struct, frozen=True):
    """The process began: versions, the device on which it computes, and what it will measure."""

    torch: str
    python: str
    device: str
    """`cpu`, or the name of the GPU."""
    threads: int
    """How many threads an op may use on the CPU."""
    cores: int
    """How many cores the process may use."""
    scenarios: tuple[str, ...]
    parts: tuple[str, ...]
    """`forward`, `backward`, `step`."""


class Peaks(Struct, frozen=True):
    """The peak memory of tensors during a call, beyond the memory in use before it; None: not measured."""

    scenario: str
    part: str
    eager: int | None
    compiled: int | None


class KernelUsed(Struct, frozen=True):
    """A kernel of a compiled call: how often it runs, and the total time of its runs."""

    name: str
    times: float
    seconds: float


class SharesMeasured(Struct, frozen=True):
    """How the time of a call is spent, measured with the profiler on; None: not measured."""

    JSON: ClassVar[str] = (
        "scenario part side profiled_call=call guards runtime wrapper launches ops kernels gaps launched kernel_list"
    )
    scenario: str
    part: str
    side: str
    call: float
    """The time of a call with the profiler on, which slows it down."""
    guards: float | None = None
    runtime: float | None = None
    """Dynamo's and AOTAutograd's code around the graph."""
    wrapper: float | None = None
    """The wrapper that Inductor generated to call the kernels."""
    launches: float | None = None
    """The CPU's time to launch kernels on the GPU."""
    ops: float | None = None
    """The CPU's time in torch ops, without launches; on a CPU, these ops are kernels."""
    kernels: float | None = None
    """The time that the GPU computes; on a CPU, the time in C++ kernels."""
    gaps: float | None = None
    """The time that the GPU waits."""
    launched: float | None = None
    """The number of kernels and CUDA graphs that a call launches."""
    kernel_list: tuple[KernelUsed, ...] = ()


class Differed(Struct, frozen=True):
    """The largest difference between eager and compiled results, relative to the largest eager value."""

    JSON: ClassVar[str] = "scenario relative=difference why|null_if_empty"
    scenario: str
    difference: float | None
    why: str = ""
    """Why there is no difference to report; empty if there is one."""


class Skipped(Struct, frozen=True):
    """A reason why torch did not use a CUDA graph."""

    JSON: ClassVar[str] = "text=reason times"
    reason: str
    times: int


class Compiled(Struct, frozen=True):
    """What the compiler produced, after all calls."""

    JSON: ClassVar[str] = "status=cuda_graphs recordings pool_bytes=pool reasons=skips"
    graphs: int
    breaks: int
    cuda_graphs: str
    """`off`, `recorded`, `skipped`, `partly` or `not_on_cpu`."""
    recordings: int = 0
    pool: int | None = None
    """The bytes of the CUDA graphs' memory pools."""
    skips: tuple[Skipped, ...] = ()


class Noted(Struct, frozen=True):
    """A note that readers need to interpret a scenario's times."""

    JSON: ClassVar[str] = "scenario|null_if_empty kind"
    scenario: str
    kind: str
    text: str = ""


class Failed(Struct, frozen=True):
    """How a process or a scenario failed."""

    JSON: ClassVar[str] = "phase type message scenario file line fix=todo|null_if_empty"
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
    """The process finished all requested measurements."""

    peak: int = 0
    """Not used: an event needs at least one field."""


Event = (
    Setup | WarmedUp | RoundDone | Peaks | SharesMeasured | Differed | Compiled | Noted | Failed | AutotuningPrinted
    | Done
)  # fmt: skip
_KINDS: Mapping[str, type[Any]] = {each.__name__: each for each in get_args(Event)}


def line_of(event: Event) -> bytes:
    """Return an event as one line of JSON."""
    return f"{json.dumps({'event': type(event).__name__, **to_builtins(event)})}\n".encode()


class TimingResults(Struct):
    """Read the results of a process while it writes them; count lines that are not valid events."""

    path: Path
    damaged: int = 0
    _offset: int = field(default=0)
    _rest: bytes = field(default=b"")

    def new(self) -> Iterator[Event]:
        """Yield the events that were written since the last call.

        Raises:
            OSError: the file cannot be read.
        """
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        # The last line may be written in part only; it is read on with the next data.
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                yield _event(line)
            # A process that crashes may leave anything; what else it wrote still counts.
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
