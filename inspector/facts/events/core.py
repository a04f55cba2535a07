"""Events about the run itself, its scenarios, compiled and skipped functions, breaks, graphs and metrics."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.facts.autotuning import SweepReported
from ctrace.inspector.facts.events.compile_time_events import CacheAsked
from ctrace.inspector.facts.events.guard_events import GuardEvent
from ctrace.inspector.facts.events.kernel_events import KernelEvent
from ctrace.inspector.facts.events.shape_events import ShapeEvent
from ctrace.inspector.facts.events.tracing import GraphTraced
from ctrace.inspector.facts.graph_facts import GraphEvent
from ctrace.inspector.facts.stored import Stored, Text
from ctrace.inspector.facts.wire import Record


class FileName(Struct, frozen=True):
    """A file name, and the number that torch logs instead of it."""

    number: int
    name: str


class SpanMarked(Struct, frozen=True):
    """Torch began or ended a compilation phase in a thread."""

    thread: str
    name: str
    begins: bool
    compilation: str | None = None
    sweep: SweepReported | None = None
    """What torch says of the choices that it timed, or could not build, in this phase."""
    at: float | None = None
    """When this was logged, in microseconds; None if the log does not say."""


class StackFrame(Struct, frozen=True):
    """One frame of a stack; `file` is the number that the log has for the file name."""

    file: int
    line: int
    name: str


class CompileStarted(Struct, frozen=True):
    """Dynamo started an attempt to compile a frame; `stack` is outermost first."""

    id: str
    attempt: int
    stack: tuple["StackFrame", ...]


class BreakReported(Struct, frozen=True):
    """Dynamo reported where and why it broke a graph, or gave up on a function."""

    id: str
    text: str


class MetricsMeasured(Struct, frozen=True):
    """Torch's metrics of one compilation, forward or backward; times in seconds, None if torch does not log them."""

    id: str
    backward: bool
    function: str | None = None
    file: str | None = None
    line: int | None = None
    guards: int | None = None
    ops: int | None = None
    frame_seconds: float | None = None
    backend_seconds: float | None = None
    """Part of `frame_seconds`."""
    inductor_seconds: float | None = None
    """Part of `backend_seconds`."""
    backward_seconds: float | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    suppresses: bool | None = None
    """Whether torch falls back to eager after an error (`torch._dynamo.config.suppress_errors`)."""
    metrics: Mapping[str, Any] | Stored | None = None
    """All metrics, or the first line of their record."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of `torch`, `triton` and `python` in the metrics."""
    settings: Mapping[str, bool] = field(default_factory=dict)
    """Those of `torch._dynamo.config` that advice may change."""

    @property
    def is_limit(self) -> bool:
        """Whether Dynamo refused to compile the function again."""
        return "recompile limit exceeded" in (self.fail_reason or "")


class RecordSeen(Struct, frozen=True):
    """A record of torch that ctrace shows as it is."""

    name: str
    id: str | None
    line: int
    text: Text


class Ignored(Struct, frozen=True):
    """A known event that ctrace does not use."""


class UnknownEvent(Struct, frozen=True):
    """An event that ctrace does not know."""

    kind: str


Event = (
    Record | FileName | CompileStarted | BreakReported
    | GraphTraced | GraphEvent | MetricsMeasured | GuardEvent
    | KernelEvent | CacheAsked | ShapeEvent
    | SpanMarked | RecordSeen | Ignored | UnknownEvent
)  # fmt: skip
