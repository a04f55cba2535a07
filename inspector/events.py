"""What a trace line can be, typed: torch's own events that ctrace uses, and ctrace's. `decode.py` makes them."""

from dataclasses import dataclass

from ctrace.inspector.guards import GuardCost
from ctrace.inspector.model import Failure, Frame, Fusion, Stage
from ctrace.inspector.shape_events import ShapeEvent


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
    """Whether kernels are built, or only emitted."""

    build: bool


@dataclass(frozen=True, slots=True)
class DeviceUsed:
    """The device that the program used."""

    device: str


@dataclass(frozen=True, slots=True)
class ScenarioDone:
    """A scenario has been called."""

    name: str
    calls: int


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


@dataclass(frozen=True, slots=True)
class RecompileExplained:
    """Torch's reasons for a recompile, newest cache entry first."""

    id: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnmetGuard:
    """A guard that a new call did not meet: torch's text, and the value that the call has."""

    text: str
    now: str | None = None
    stack: tuple[Frame, ...] = ()
    """Where the user's code made the guard."""
    hint: str = ""
    """What torch advises along with it."""
    was: str | None = None
    """The value that the entry was made for, where the text does not say it."""


@dataclass(frozen=True, slots=True)
class EntryHeld:
    """A new call held against one cache entry."""

    id: str
    unmet: tuple[UnmetGuard, ...] = ()
    number: int = 0
    """Of all unmet guards that stand for themselves; `unmet` may hold fewer."""
    invalid: str | None = None
    """Why torch had thrown the entry away."""
    following: tuple[str, ...] = ()
    """Texts of unmet guards that only follow from others."""


@dataclass(frozen=True, slots=True)
class GuardsFailed:
    """A new call held against each cache entry, newest first."""

    id: str
    entries: tuple[EntryHeld, ...]
    closure: frozenset[str] = frozenset()
    """Names that the function takes from an enclosing one."""
    seconds: float | None = None
    """What finding this out took."""


@dataclass(frozen=True, slots=True)
class GuardsPrinted:
    """A compilation's guard tree as torch prints it."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class GuardsPlaced:
    """Where a compilation's guards come from: for each of torch's lines a stack, outermost frame first, or None."""

    id: str
    stacks: tuple[tuple[Frame, ...] | None, ...]
    without_effect: dict[str, int]
    """Guards that Dynamo asked for and that check nothing, by kind."""
    of_object: str | None = None
    """The module whose method was compiled, as class and number."""
    arguments: tuple[str, ...] = ()
    """What `args` holds is called so in the function that torch wrapped, in order."""


@dataclass(frozen=True, slots=True)
class GuardsTimed:
    """What a compilation's guards cost."""

    id: str
    cost: GuardCost


@dataclass(frozen=True, slots=True)
class FusionDone:
    """How the scheduler fused the nodes of one graph part."""

    id: str
    fusion: Fusion


@dataclass(frozen=True, slots=True)
class KernelMade:
    """One kernel of one graph part."""

    id: str
    stage: Stage
    name: str
    language: str
    ops: tuple[str, ...]
    stacks: tuple[str, ...]


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
    | Listing | CompileStarted | BreakReported
    | GraphMade | BytecodeSeen | Measured | RecompileExplained | GuardsFailed | GuardsPrinted
    | GuardsPlaced | GuardsTimed | FusionDone | KernelMade
    | CodegenStarted | CodegenEnded | ShapeEvent | Counted | ProgramFailed | ProblemMet | Ended | Ignored | Unknown
)  # fmt: skip
