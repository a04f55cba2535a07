"""What a trace line can be, typed: torch's own events that ctrace uses, and ctrace's. `decode/` makes them."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.log.events.built import BuiltEvent
from ctrace.inspector.log.events.compile_time import CompileTimeEvent
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


class FileName(Struct, frozen=True):
    """Torch writes file names as numbers; this explains one."""

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
    """The folder of our code that runs the program."""


class TorchFound(Struct, frozen=True):
    """The program imported torch, or (in a log made by torch alone) torch says its version."""

    version: str
    prefixes: dict[str, str]


class ModeChosen(Struct, frozen=True):
    """Whether kernels are built, or only emitted; and whether only Dynamo is looked at."""

    build: bool
    fast: bool = False


class DeviceUsed(Struct, frozen=True):
    """The device that the program used."""

    device: str


class ScenarioDone(Struct, frozen=True):
    """A scenario has been called."""

    scenario: Scenario


class TrialDone(Struct, frozen=True):
    """A piece of advice was tried, in a separate run."""

    tried: Tried


class DangerFound(Struct, frozen=True):
    """A compiled call gave other results than the same call in eager."""

    danger: Danger


class FunctionOps(Struct, frozen=True):
    """Aten ops that a function dispatched in one eager call; `name` is qualified."""

    file: str
    name: str
    line: int
    ops: int


class LeftOps(Struct, frozen=True):
    """Aten ops that one compiled call ran outside of graphs, and the frames that led to them, outermost first."""

    stack: tuple[Frame, ...]
    ops: int


class OpsCounted(Struct, frozen=True):
    """Aten ops of one call in a scenario, in eager and (None: not measured) compiled but outside of graphs."""

    scenario: str
    eager: int
    left: int | None
    functions: tuple[FunctionOps, ...]
    stacks: tuple[LeftOps, ...]


class FrameLeft(Struct, frozen=True):
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


class Listing(Struct, frozen=True):
    """The text of a source file."""

    file: str
    text: str


class CallBegan(Struct, frozen=True):
    """A scenario's call number `index` begins."""

    scenario: str
    index: int


class Planned(Struct, frozen=True):
    """The scenarios that the capture is about to call, in order; a later plan holds those of an earlier one."""

    scenarios: tuple[Scenario, ...]


class ProgramExited(Struct, frozen=True):
    """A program ended its own process without an end of the capture."""

    how: str
    """Such as `os._exit(0)`."""
    file: str | None = None
    line: int | None = None


class FilesFound(Struct, frozen=True):
    """The files that a model was made of, with the digest of each; empty for one whose content cannot stand for it."""

    files: dict[str, str]


class SpanMarked(Struct, frozen=True):
    """Torch began a phase of compiling in a thread, or ended it."""

    thread: str
    name: str
    begins: bool
    compilation: str | None = None
    at: float | None = None
    """When, in microseconds; None: the log does not say."""


class StackFrame(Struct, frozen=True):
    """One line of a stack, with its file as the log's number for it."""

    file: int
    line: int
    name: str


class CompileStarted(Struct, frozen=True):
    """Dynamo starts an attempt at a frame; `stack` is outermost first, file names still as numbers."""

    id: str
    attempt: int
    stack: tuple["StackFrame", ...]


class BreakReported(Struct, frozen=True):
    """Dynamo says where and why it broke a graph, or gave a function up."""

    id: str
    text: str


class GraphMade(Struct, frozen=True):
    """Dynamo handed a graph to a backend; with our own hook, which, and how many ops."""

    id: str
    backend: str | None
    ops: int | None
    wraps: str | None = None
    """The class of the module, where Dynamo compiles its own wrapper around one of torch's."""
    printed: Printed | None = None
    """The graph itself, where torch's own entry tells of it."""


class InductorGuardsSeen(Struct, frozen=True):
    """A capture without Inductor met a graph with symbolic sizes, and lowered it for its guards, or did not."""

    id: str
    added: tuple[str, ...] | None
    """Conditions on sizes; None: not looked for."""


class BytecodeSeen(Struct, frozen=True):
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


class Measured(Struct, frozen=True):
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


class FusionDone(Struct, frozen=True):
    """How the scheduler fused the nodes of one graph part."""

    id: str
    fusion: Fusion
    """Without lines; `stacks` has what they are made of."""
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Stack traces by node before fusion."""


class CodegenStarted(Struct, frozen=True):
    """Code generation of a graph part goes on in a fork."""

    id: str
    stage: Stage


class CodegenEnded(Struct, frozen=True):
    """The code of a graph part is there, or could not be generated."""

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
    """What keeps torch.compile from doing anything at the end of the run."""
    caches: dict[str, int] | None = None
    """Outcomes of questions to caches; None: not recorded."""


class ProgramFailed(Struct, frozen=True):
    """How the user's code failed."""

    failure: Failure


class ProblemMet(Struct, frozen=True):
    """A hook could not do its work."""

    what: str


class Ended(Struct, frozen=True):
    """The capture came to its own end."""


class Ignored(Struct, frozen=True):
    """A known event that nothing here needs."""


class Unknown(Struct, frozen=True):
    """An event that ctrace has never heard of."""

    kind: str


Event = (
    FileName | Started | TorchFound | ModeChosen | DeviceUsed | ScenarioDone | CallBegan | OpsCounted | FrameLeft
    | DangerFound | TrialDone | Listing | CompileStarted | BreakReported | UserKernelEvent
    | GraphMade | GraphEvent | InductorGuardsSeen | BytecodeSeen | Measured | GuardEvent | PassEvent | FusionDone
    | KernelEvent | CudaGraphEvent
    | BuiltEvent | CompileTimeEvent | CodegenStarted | CodegenEnded | ShapeEvent | Counted | VirtualEvent
    | Planned | ProgramExited | FilesFound | SpanMarked | ProgramFailed | ProblemMet | Ended | Ignored | Unknown
)  # fmt: skip
