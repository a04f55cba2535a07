"""Events about the run itself: its process, versions, scenarios, calls and end; and torch's about compiled and skipped
functions, breaks, graphs and metrics.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, field

from ctrace.inspector.facts.autotuning import SweepReported
from ctrace.inspector.facts.bytecode_facts import GraphTraced
from ctrace.inspector.facts.compile_time import CacheAsked
from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.graph_facts import GraphEvent
from ctrace.inspector.facts.guard_facts import GuardEvent
from ctrace.inspector.facts.kernel_facts import KernelEvent, Stage
from ctrace.inspector.facts.outcome import Asked
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.shape_facts import SymbolEvent
from ctrace.inspector.facts.stored import Stored, Text
from ctrace.inspector.facts.wire import MAYBE_COMPILATION, MOST, Integer, Number, OfCompilation, Record


class Started(Record, frozen=True, kw_only=True):
    """The capturing process began."""

    KIND: ClassVar[str] = "start"
    schema: int
    """Of any size: a number that this ctrace does not know is a newer one, and its log is refused."""
    ctrace: str
    python: str
    triton: str | None = None
    cwd: str
    home: str = ""
    """The folder of ctrace's own code in the capturing process; empty in the log of an older ctrace."""
    prefixes: dict[str, Owner]
    seed: Integer | None = None
    """What the generators of random numbers started with; None: with what Python and torch chose."""

    def __post_init__(self) -> None:
        """Refuse a number that no version has."""
        # A number of more than thirty digits is damage, and no version that a user could look for.
        if abs(self.schema) > MOST:
            raise ValueError("schema is out of range")


class TorchFound(Record, frozen=True):
    """The program imported torch, or torch logged its version (in a log that only torch wrote)."""

    KIND: ClassVar[str] = "torch"
    # A session has an empty version where no record names one.
    version: Annotated[str, Meta(min_length=1)] = field(name="torch")
    prefixes: dict[str, Owner] = field(default_factory=dict)


class ModeChosen(Record, frozen=True):
    """Whether the run builds kernels or only emits them (`--build`), and whether it captures Dynamo only (`--fast`)."""

    KIND: ClassVar[str] = "mode"
    build: bool
    fast: bool = False


class DeviceUsed(Record, frozen=True):
    """The device that the program used."""

    KIND: ClassVar[str] = "device"
    device: str


class PlannedScenario(Struct, frozen=True):
    """A scenario that the capture is about to call."""

    name: str
    kind: ScenarioKind


class Planned(Record, frozen=True):
    """The scenarios that the capture is about to call, in order; a later plan includes those of earlier plans."""

    KIND: ClassVar[str] = "plan"
    scenarios: tuple[PlannedScenario, ...]


class CallBegan(Record, frozen=True):
    """Call number `index` of a scenario began."""

    KIND: ClassVar[str] = "call"
    scenario: str
    index: Integer


class EagerCall(Record, frozen=True):
    """An eager call in which torch may compile began or ended: what it compiles is no part of the compiled model."""

    KIND: ClassVar[str] = "eager_call"
    ends: bool


class DangersWithdrawn(Record, frozen=True):
    """The comparison of a call failed: what is not proven may have causes that ctrace cannot see."""

    KIND: ClassVar[str] = "dangers_withdrawn"


class FunctionOps(Struct, frozen=True):
    """How many aten ops a function dispatched in one eager call; `name` is its qualified name."""

    file: str
    name: str
    line: Integer
    ops: Integer


class LeftOps(Struct, frozen=True):
    """How many aten ops one compiled call ran outside of graphs from one stack, outermost frame first."""

    stack: tuple[Frame, ...] = field(name="frames")
    ops: Integer


class OpsCounted(Record, frozen=True, kw_only=True):
    """How many aten ops one call runs: in eager, and compiled but outside of graphs (`left`; None: not measured)."""

    KIND: ClassVar[str] = "ops"
    scenario: str
    eager: Integer
    left: Integer | None = None
    functions: tuple[FunctionOps, ...]
    stacks: tuple[LeftOps, ...] = ()


class FrameLeft(Record, frozen=True, kw_only=True):
    """A function that Dynamo skipped; `rule` is one of the rules in capture/dynamo/frames.py."""

    KIND: ClassVar[str] = "frame"
    id: str | None = MAYBE_COMPILATION
    name: str
    qualname: str
    file: str
    line: Integer
    rule: str
    reason: str | None = None
    """Torch's reason; None: it gives none."""
    fullgraph: bool
    stack: tuple[Frame, ...]
    """Without torch's frames, outermost first."""


class CodeLines(Struct, frozen=True):
    """The first and the last line of a function."""

    file: str
    first: Integer
    last: Integer


class PartCode(Struct, frozen=True):
    """A module of the target; `code` is the number of its `forward` in `PartsSeen.codes`."""

    path: str
    kind: str
    code: Integer
    parameters: Integer
    """The elements of its parameters, with those of the modules inside."""


class PartsSeen(Record, frozen=True):
    """The modules that the target has, each of which could be compiled instead of the whole."""

    KIND: ClassVar[str] = "parts"
    codes: tuple[CodeLines, ...]
    parts: tuple[PartCode, ...]

    def __post_init__(self) -> None:
        """Refuse a module without code."""
        for each in self.parts:
            # Also below zero, where a lookup would count from the end.
            if not 0 <= each.code < len(self.codes):
                raise ValueError(f"a part without code: {each.path!r:.60}")


class Listing(Record, frozen=True):
    """The text of a source file."""

    KIND: ClassVar[str] = "listing"
    file: str
    text: str


class FilesFound(Record, frozen=True):
    """Digests of the files that the model was loaded from, keyed by path; empty for a file without a usable digest."""

    KIND: ClassVar[str] = "files"
    files: dict[str, str]
    asked: Asked = Asked()


class InductorGuardsSeen(OfCompilation, frozen=True):
    """The guards that AOTAutograd and Inductor add to a graph with symbolic sizes."""

    KIND: ClassVar[str] = "inductor_guards"
    seen: bool
    """Whether the graph was lowered to find them."""
    added: tuple[str, ...]
    """Conditions on sizes; empty if it was not lowered."""
    whole: bool = False
    """Whether Inductor compiled the graph; else the capture only lowered it for its guards."""


class CodegenStarted(OfCompilation, frozen=True):
    """A forked process started to generate a graph part's code."""

    KIND: ClassVar[str] = "codegen_started"
    stage: Stage


class CodegenEnded(OfCompilation, frozen=True):
    """The code of a graph part was generated."""

    KIND: ClassVar[str] = "codegen"
    stage: Stage
    seconds: Number | None = None


class CodegenFailed(OfCompilation, frozen=True):
    """The code of a graph part could not be generated."""

    KIND: ClassVar[str] = "codegen_failed"
    stage: Stage
    error: str | None = None


class Counted(Record, frozen=True, kw_only=True):
    """Torch's counters at the end of the run."""

    KIND: ClassVar[str] = "counters"
    frames: Mapping[str, Integer] = field(default_factory=dict)
    graph_break: Mapping[str, Integer] = field(default_factory=dict)
    unimplemented: Mapping[str, Integer] = field(default_factory=dict)
    stats: Mapping[str, Integer] = field(default_factory=dict)
    caches: Mapping[str, Integer] | None = None
    """The number of cache look-ups by outcome; None if they were not recorded."""
    recompile_limit: Integer | None = None
    switched_off: str | None = None
    """What disables torch.compile at the end of the run."""


class ProgramExited(Record, frozen=True):
    """The program ended its process before the capture ended."""

    KIND: ClassVar[str] = "exited"
    how: str
    """Such as `os._exit(0)`."""
    file: str | None = None
    line: Integer | None = None


class ProblemMet(Record, frozen=True):
    """A hook of ctrace failed."""

    KIND: ClassVar[str] = "problem"
    what: str


class Ended(Record, frozen=True):
    """The capture ended normally."""

    KIND: ClassVar[str] = "end"


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
        # Torch's title of the error (2.13, _dynamo/convert_frame.py:2009); no field of the metrics says it.
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
    | KernelEvent | CacheAsked | SymbolEvent
    | SpanMarked | RecordSeen | Ignored | UnknownEvent
)  # fmt: skip
