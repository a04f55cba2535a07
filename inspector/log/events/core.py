"""Events about the run itself, its scenarios, compiled and skipped functions, breaks, graphs and metrics."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.files.stored import Stored, Text
from ctrace.inspector.log.events.built import BuiltEvent
from ctrace.inspector.log.events.compile_time import CompileTimeEvent
from ctrace.inspector.log.events.guards import GuardEvent
from ctrace.inspector.log.events.kernels import KernelEvent
from ctrace.inspector.log.events.passes import PassEvent
from ctrace.inspector.log.events.shapes import ShapeEvent
from ctrace.inspector.log.events.target import TargetEvent
from ctrace.inspector.model.autotuning import AutotuningEvent, SweepReported
from ctrace.inspector.model.bytecode import Rewritten
from ctrace.inspector.model.cuda_graphs import CudaGraphEvent
from ctrace.inspector.model.findings import Danger, Frame
from ctrace.inspector.model.fusion import Fusion
from ctrace.inspector.model.graphs import GraphEvent, Printed, Unrolled
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.outcome import Asked
from ctrace.inspector.model.session import Failure, Scenario
from ctrace.inspector.model.trial import Part, Tried
from ctrace.inspector.model.user_kernels import UserKernelEvent


class FileName(Struct, frozen=True):
    """A file name, and the number that torch logs instead of it."""

    number: int
    name: str


class Started(Struct, frozen=True):
    """The capturing process began."""

    schema: int
    ctrace: str
    python: str
    triton: str | None
    cwd: str
    prefixes: dict[str, str]
    home: str = ""
    """The folder of ctrace's own code in the capturing process."""


class TorchFound(Struct, frozen=True):
    """The program imported torch, or torch logged its version (in a log that only torch wrote)."""

    version: str
    prefixes: dict[str, str]


class ModeChosen(Struct, frozen=True):
    """Whether the run builds kernels or only emits them (`--build`), and whether it captures Dynamo only (`--fast`)."""

    build: bool
    fast: bool = False


class DeviceUsed(Struct, frozen=True):
    """The device that the program used."""

    device: str


class ScenarioDone(Struct, frozen=True):
    """The calls of a scenario ended."""

    scenario: Scenario


class TrialDone(Struct, frozen=True):
    """A separate run tried a piece of advice."""

    tried: Tried


class PartsSeen(Struct, frozen=True):
    """The modules that the target has, each of which could be compiled instead of the whole."""

    parts: tuple[Part, ...]


class DangerFound(Struct, frozen=True):
    """A compiled call and the same call in eager returned different results."""

    danger: Danger


class DangersWithdrawn(Struct, frozen=True):
    """The comparison of a call failed: what is not proven may have causes that ctrace cannot see."""


class FunctionOps(Struct, frozen=True):
    """How many aten ops a function dispatched in one eager call; `name` is its qualified name."""

    file: str
    name: str
    line: int
    ops: int


class LeftOps(Struct, frozen=True):
    """How many aten ops one compiled call ran outside of graphs from one stack, outermost frame first."""

    stack: tuple[Frame, ...]
    ops: int


class OpsCounted(Struct, frozen=True):
    """How many aten ops one call runs: in eager, and compiled but outside of graphs (`left`; None: not measured)."""

    scenario: str
    eager: int
    left: int | None
    functions: tuple[FunctionOps, ...]
    stacks: tuple[LeftOps, ...]


class FrameLeft(Struct, frozen=True):
    """A function that Dynamo skipped; `rule` is one of the rules in capture/dynamo/frames.py."""

    id: str | None
    name: str
    qualname: str
    file: str
    line: int
    rule: str
    reason: str
    fullgraph: bool
    stack: tuple[Frame, ...]
    """Without torch's frames, outermost first."""


class Listing(Struct, frozen=True):
    """The text of a source file."""

    file: str
    text: str


class CallBegan(Struct, frozen=True):
    """Call number `index` of a scenario began."""

    scenario: str
    index: int


class EagerCall(Struct, frozen=True):
    """An eager call in which torch may compile began or ended: what it compiles is no part of the compiled model."""

    ends: bool


class Planned(Struct, frozen=True):
    """The scenarios that the capture is about to call, in order; a later plan includes those of earlier plans."""

    scenarios: tuple[Scenario, ...]


class ProgramExited(Struct, frozen=True):
    """The program ended its process before the capture ended."""

    how: str
    """Such as `os._exit(0)`."""
    file: str | None = None
    line: int | None = None


class FilesFound(Struct, frozen=True):
    """Digests of the files that the model was loaded from, keyed by path; empty for a file without a usable digest."""

    files: dict[str, str]
    asked: Asked = Asked()


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


class GraphMade(Struct, frozen=True):
    """Dynamo handed a graph to the backend; only ctrace's own entry has the backend and the number of ops."""

    id: str
    backend: str | None
    ops: int | None
    wraps: str | None = None
    """If Dynamo compiles its wrapper around one of torch's modules, the class of that module."""
    printed: Printed | None = None
    """The graph's text; None if the event comes from ctrace's entry, which has no text."""


class LoopsUnrolled(Struct, frozen=True):
    """The Python loops that Dynamo unrolled into a graph."""

    id: str
    loops: tuple[Unrolled, ...]


class InductorGuardsSeen(Struct, frozen=True):
    """The guards that AOTAutograd and Inductor add to a graph with symbolic sizes."""

    id: str
    added: tuple[str, ...] | None
    """Conditions on sizes, found by lowering the graph; None: the graph was not lowered."""
    whole: bool = False
    """Whether Inductor compiled the graph; else the capture only lowered it for its guards."""


class BytecodeSeen(Struct, frozen=True):
    """The size of a code object's bytecode before and after Dynamo, and its callers."""

    id: str
    name: str
    qualname: str
    file: str
    line: int
    before: int
    after: int
    callers: tuple[Frame, ...] = ()
    codes: Rewritten | None = None
    """The instructions before and after; None in the log of an older ctrace."""


class Measured(Struct, frozen=True):
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


class FusionDone(Struct, frozen=True):
    """How the scheduler fused the nodes of one graph part."""

    id: str
    fusion: Fusion
    """The nodes have no user lines yet; `stacks` has the stacks to find them."""
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Stack traces, keyed by node before fusion."""


class CodegenStarted(Struct, frozen=True):
    """A forked process started to generate a graph part's code."""

    id: str
    stage: Stage


class CodegenEnded(Struct, frozen=True):
    """The code of a graph part was generated, or could not be generated."""

    id: str
    stage: Stage
    seconds: float | None
    error: str | None


class Counted(Struct, frozen=True):
    """Torch's counters at the end of the run."""

    frames: dict[str, int]
    graph_break: dict[str, int]
    unimplemented: dict[str, int]
    stats: dict[str, int]
    recompile_limit: int | None
    switched_off: str | None = None
    """What disables torch.compile at the end of the run."""
    caches: dict[str, int] | None = None
    """The number of cache look-ups by outcome; None if they were not recorded."""


class ProgramFailed(Struct, frozen=True):
    """How the user's code failed."""

    failure: Failure


class ProblemMet(Struct, frozen=True):
    """A hook of ctrace failed."""

    what: str


class Ended(Struct, frozen=True):
    """The capture ended normally."""


class Recorded(Struct, frozen=True):
    """A record of torch that ctrace shows as it is."""

    name: str
    id: str | None
    line: int
    text: Text


class Ignored(Struct, frozen=True):
    """A known event that ctrace does not use."""


class Unknown(Struct, frozen=True):
    """An event that ctrace does not know."""

    kind: str


Event = (
    FileName | Started | TorchFound | ModeChosen | DeviceUsed | ScenarioDone | CallBegan | EagerCall | OpsCounted
    | LoopsUnrolled | FrameLeft | DangerFound | DangersWithdrawn | TrialDone | PartsSeen | Listing | CompileStarted
    | BreakReported | UserKernelEvent | GraphMade | GraphEvent | InductorGuardsSeen | BytecodeSeen | Measured
    | GuardEvent | PassEvent | FusionDone | KernelEvent | CudaGraphEvent | AutotuningEvent
    | BuiltEvent | CompileTimeEvent | CodegenStarted | CodegenEnded | ShapeEvent | Counted | TargetEvent
    | Planned | ProgramExited | FilesFound | SpanMarked | ProgramFailed | ProblemMet | Recorded | Ended | Ignored
    | Unknown
)  # fmt: skip
