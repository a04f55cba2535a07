"""What a trace line can be, typed: torch's own events that ctrace uses, and ctrace's. `decode/` makes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ctrace.inspector.log.events.built import BuiltEvent
from ctrace.inspector.log.events.guards import GuardEvent
from ctrace.inspector.log.events.kernels import KernelEvent
from ctrace.inspector.log.events.passes import PassEvent
from ctrace.inspector.log.events.shapes import ShapeEvent
from ctrace.inspector.log.events.target import VirtualEvent
from ctrace.inspector.model.bytecode import Rewritten
from ctrace.inspector.model.cuda_graphs import CudaGraphEvent
from ctrace.inspector.model.findings import Danger, Frame
from ctrace.inspector.model.fusion import Fusion
from ctrace.inspector.model.graphs import GraphEvent, Printed
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.session import Failure, Scenario
from ctrace.inspector.model.trial import Tried
from ctrace.inspector.model.user_kernels import UserKernelEvent


@dataclass(frozen=True, slots=True)
class FileName:
    """Torch writes file names as numbers; this explains one."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Started:
    """The capturing process began."""

    schema: int
    ctrace: str
    python: str
    triton: str | None
    cwd: str
    prefixes: dict[str, str]
    home: str = ""
    """The folder of our code that runs the program."""


@dataclass(frozen=True, slots=True)
class TorchFound:
    """The program imported torch, or (in a log made by torch alone) torch says its version."""

    version: str
    prefixes: dict[str, str]


@dataclass(frozen=True, slots=True)
class ModeChosen:
    """Whether kernels are built, or only emitted; and whether only Dynamo is looked at."""

    build: bool
    fast: bool = False


@dataclass(frozen=True, slots=True)
class DeviceUsed:
    """The device that the program used."""

    device: str


@dataclass(frozen=True, slots=True)
class ScenarioDone:
    """A scenario has been called."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A piece of advice was tried, in a separate run."""

    tried: Tried


@dataclass(frozen=True, slots=True)
class DangerFound:
    """A compiled call gave other results than the same call in eager."""

    danger: Danger


@dataclass(frozen=True, slots=True)
class FunctionOps:
    """Aten ops that a function dispatched in one eager call; `name` is qualified."""

    file: str
    name: str
    line: int
    ops: int


@dataclass(frozen=True, slots=True)
class LeftOps:
    """Aten ops that one compiled call ran outside of graphs, and the frames that led to them, outermost first."""

    stack: tuple[Frame, ...]
    ops: int


@dataclass(frozen=True, slots=True)
class OpsCounted:
    """Aten ops of one call in a scenario, in eager and (None: not measured) compiled but outside of graphs."""

    scenario: str
    eager: int
    left: int | None
    functions: tuple[FunctionOps, ...]
    stacks: tuple[LeftOps, ...]


@dataclass(frozen=True, slots=True)
class FrameLeft:
    """A function that Dynamo was asked about and left as it is; `rule` is one of capture/frames.py's words."""

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


@dataclass(frozen=True, slots=True)
class Listing:
    """The text of a source file."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A scenario's call number `index` begins."""

    scenario: str
    index: int


@dataclass(frozen=True, slots=True)
class Planned:
    """The scenarios that the capture is about to call, in order; a later plan holds those of an earlier one."""

    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True, slots=True)
class ProgramExited:
    """A program ended its own process without an end of the capture."""

    how: str
    """Such as `os._exit(0)`."""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class SpanMarked:
    """Torch began a phase of compiling in a thread, or ended it."""

    thread: str
    name: str
    begins: bool
    compilation: str | None = None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One line of a stack, with its file as the log's number for it."""

    file: int
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class CompileStarted:
    """Dynamo starts an attempt at a frame; `stack` is outermost first, file names still as numbers."""

    id: str
    attempt: int
    stack: tuple["StackFrame", ...]


@dataclass(frozen=True, slots=True)
class BreakReported:
    """Dynamo says where and why it broke a graph, or gave a function up."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class GraphMade:
    """Dynamo handed a graph to a backend; with our own hook, which, and how many ops."""

    id: str
    backend: str | None
    ops: int | None
    wraps: str | None = None
    """The class of the module, where Dynamo compiles its own wrapper around one of torch's."""
    printed: Printed | None = None
    """The graph itself, where torch's own entry tells of it."""


@dataclass(frozen=True, slots=True)
class InductorGuardsSeen:
    """A capture without Inductor met a graph with symbolic sizes, and lowered it for its guards, or did not."""

    id: str
    added: tuple[str, ...] | None
    """Conditions on sizes; None: not looked for."""


@dataclass(frozen=True, slots=True)
class BytecodeSeen:
    """A code object, its size in bytes before and after, and who called it: no frame of torch's, outermost first."""

    id: str
    name: str
    qualname: str
    file: str
    line: int
    before: int
    after: int
    callers: tuple[Frame, ...] = ()
    codes: Rewritten | None = None
    """Instruction by instruction; a log of an older ctrace has sizes only."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Torch's metrics of one compilation, forward or backward; times in seconds, None where torch says nothing."""

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
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of `torch`, `triton` and `python`, those that are named."""

    @property
    def is_limit(self) -> bool:
        """Whether it is Dynamo's refusal to compile a function once more."""
        return "recompile limit exceeded" in (self.fail_reason or "")


@dataclass(frozen=True, slots=True)
class FusionDone:
    """How the scheduler fused the nodes of one graph part."""

    id: str
    fusion: Fusion
    """Without lines; `stacks` has what they are made of."""
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Stack traces by node before fusion."""


@dataclass(frozen=True, slots=True)
class CodegenStarted:
    """Code generation of a graph part goes on in a fork."""

    id: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class CodegenEnded:
    """The code of a graph part is there, or could not be generated."""

    id: str
    stage: Stage
    seconds: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """Torch's counters at the end of the run."""

    frames: dict[str, int]
    graph_break: dict[str, int]
    unimplemented: dict[str, int]
    stats: dict[str, int]
    recompile_limit: int | None
    switched_off: str | None = None
    """What keeps torch.compile from doing anything at the end of the run."""


@dataclass(frozen=True, slots=True)
class ProgramFailed:
    """How the user's code failed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class ProblemMet:
    """A hook could not do its work."""

    what: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The capture came to its own end."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A known event that nothing here needs."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event that ctrace has never heard of."""

    kind: str


Event = (
    FileName | Started | TorchFound | ModeChosen | DeviceUsed | ScenarioDone | CallBegan | OpsCounted | FrameLeft
    | DangerFound | TrialDone | Listing | CompileStarted | BreakReported | UserKernelEvent
    | GraphMade | GraphEvent | InductorGuardsSeen | BytecodeSeen | Measured | GuardEvent | PassEvent | FusionDone
    | KernelEvent | CudaGraphEvent
    | BuiltEvent | CodegenStarted | CodegenEnded | ShapeEvent | Counted | VirtualEvent
    | Planned | ProgramExited | SpanMarked | ProgramFailed | ProblemMet | Ended | Ignored | Unknown
)  # fmt: skip
