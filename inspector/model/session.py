"""Everything that a run showed: plain frozen records with small look-ups.

`Session` is the root. All of it comes from a trace log (`session/build.py`); nothing needs torch. A *compilation* is
one entry of a function's cache (`0/1`), a *graph* is what one compilation passed to the backend, a *break* is a place
that splits a function into several graphs.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from ctrace.inspector.model.autotuning import Tuned, TunedKernel
from ctrace.inspector.model.built import Built, Gpu, KernelRefusal, LaunchTiming
from ctrace.inspector.model.bytecode import Rewritten
from ctrace.inspector.model.comparison import Comparison
from ctrace.inspector.model.compile_time import CompileTime, Speed
from ctrace.inspector.model.cuda_graphs import CudaGraph
from ctrace.inspector.model.cut_kinds import CutOff
from ctrace.inspector.model.findings import Break, Danger, Limit, Recompile, Skip
from ctrace.inspector.model.fusion import Fusion
from ctrace.inspector.model.graphs import Graphs
from ctrace.inspector.model.guards import GuardText
from ctrace.inspector.model.kernels import Kernel, OutputCode
from ctrace.inspector.model.outcome import Failure as Failure
from ctrace.inspector.model.outcome import FailurePhase as FailurePhase
from ctrace.inspector.model.outcome import Target as Target
from ctrace.inspector.model.passes import Attention, Pass
from ctrace.inspector.model.scenarios import Outcome, ScenarioKind
from ctrace.inspector.model.shapes import Shaped
from ctrace.inspector.model.target import DeviceQuestion, Undecided
from ctrace.inspector.model.trial import Tried
from ctrace.inspector.model.user_kernels import UserKernel


class Verdict(StrEnum):
    """Whether `torch.compile` compiled the model."""

    COMPILED = "compiled"
    """There are graphs, and no breaks, no skips and no recompile limit hit."""
    PARTIAL = "partial"
    """There are graphs, and a break, a skip or a recompile limit hit."""
    NOT_COMPILED = "not_compiled"
    """No graph at all."""
    FAILED = "failed"
    """Compiling or the program raised."""
    INCOMPLETE = "incomplete"
    """The run or its log was cut off, so no other verdict is possible."""


class Environment(Struct, frozen=True):
    """Versions, device and backend of a run; empty if the log does not have them."""

    ctrace: str = ""
    torch: str = ""
    triton: str | None = None
    python: str = ""
    device: str = ""
    backend: str = ""
    built: bool = False
    """Whether kernels were compiled and run (`--build`), not only emitted."""
    fast: bool = False
    """Whether the run captured Dynamo only (`--fast`)."""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """Folder -> owner (`torch` or `library`), as the capturing process saw them."""
    cwd: str = ""
    switched_off: str | None = None
    """What disabled torch.compile, such as an environment variable."""


class Scenario(Struct, frozen=True):
    """A named way to call the model, and the results of its calls."""

    name: str
    calls: int = 0
    coverage: "Coverage" = field(default_factory=lambda: Coverage())
    kind: ScenarioKind = ScenarioKind.GIVEN
    outcome: Outcome = Outcome.DONE
    message: str = ""
    """The exception, if the outcome is not `done`."""
    compared: int | None = None
    """Calls whose results were compared with eager; None: not measured, as in a program."""
    not_compared: str = ""
    """Why the other calls were not compared."""
    call_seconds: float | None = None
    """Time of a compiled call without compilation, the minimum of a few; None: not measured."""
    comparison: Comparison | None = None
    """How results were judged, for the call that was hardest to decide; None: not compared, or not recorded."""
    training: bool | None = None
    """Whether the model was in training mode; None: not known, as in a program."""
    unused_grad: bool | None = None
    """Whether calls recorded gradients of parameters without a backward; None: not known."""


class Coverage(Struct, frozen=True):
    """Aten ops that one eager call dispatches, and how many of them are in graphs; None: not measured."""

    ops: int | None = None
    compiled: int | None = None


class Graph(Struct, frozen=True):
    """What one compilation handed to the backend."""

    id: str
    function: str
    file: str
    line: int
    ops: int


class Bytecode(Struct, frozen=True):
    """Instruction counts of a function before and after Dynamo."""

    before: int
    after: int


class Compilation(Struct, frozen=True):
    """One entry of a function's cache, or a failed attempt to create one."""

    id: str
    function: str
    """Name of the compiled function; for a resume function, of the function that it resumes."""
    file: str
    line: int
    resumes_at: int | None = None
    """For a resume function, the line at which it resumes."""
    guards: int | None = None
    bytecode: Bytecode | None = None
    attempts: int = 1
    seconds: float | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    of_object: str | None = None
    """The module whose method was compiled, as class and number; several modules share the cache of one code object."""
    scenario: str | None = None
    """The scenario of the call; None for a program."""
    call: int | None = None
    """Which call of the scenario, from 0."""

    @property
    def frame(self) -> str:
        """Dynamo's number of the code object, the part of the id before the slash."""
        return self.id.partition("/")[0]


class Function(Struct, frozen=True):
    """A function of the model or program, and how much of it was compiled."""

    name: str
    """The qualified name, if torch or the eager call reports it."""
    file: str
    line: int
    graphs: int = 0
    """Its graphs, including those of its resume functions; a function inlined into another has none."""
    coverage: Coverage = Coverage()
    compiled_for_itself: bool = False
    """Whether Dynamo was called on it directly, and not inside another function of this list."""


class Time(Struct, frozen=True):
    """Times in seconds. `total` is the whole capture; torch measures the phases.

    `codegen` is code generation that ran in parallel on another core; otherwise `inductor` contains it.
    """

    total: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


class Problem(Struct, frozen=True):
    """Something that ctrace could not read or measure, or that two sources disagree on."""

    what: str
    line: int | None = None
    """The line of the trace log that it is about, if there is one."""
    is_doubt: bool = False
    """Whether the report may be wrong or incomplete because of it: the log cannot be read, or sources disagree."""


class Session(Struct, frozen=True):
    """Everything one run showed."""

    environment: Environment = Environment()
    target: Target = field(default_factory=Target)
    scenarios: tuple[Scenario, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    graphs: tuple[Graph, ...] = ()
    functions: tuple[Function, ...] = ()
    coverage: Coverage = Coverage()
    breaks: tuple[Break, ...] = ()
    skips: tuple[Skip, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    dangers: tuple[Danger, ...] = ()
    limit: Limit = field(default_factory=Limit)
    shapes: tuple[Shaped, ...] = ()
    passes: tuple[Pass, ...] = ()
    attention: tuple[Attention, ...] = ()
    fusions: tuple[Fusion, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    code: tuple[OutputCode, ...] = ()
    user_kernels: tuple[UserKernel, ...] = ()
    cuda_graphs: tuple[CudaGraph, ...] = ()
    """One for each graph part, if CUDA graphs are enabled."""
    tuned: tuple[Tuned, ...] = ()
    """Operations that torch has several ways to compute, or one library call (`max_autotune`)."""
    tuned_kernels: tuple[TunedKernel, ...] = ()
    """Triton kernels for which torch chose one of several configurations (`--build` on a GPU)."""
    built: tuple[Built, ...] = ()
    """Compiled Triton kernels (`--build` on a GPU, or `--target`), one for each configuration."""
    refused: tuple[KernelRefusal, ...] = ()
    """Configurations of kernels that do not compile or fit (`--target`)."""
    timed: tuple[LaunchTiming, ...] = ()
    """Timed kernel launches (`--build`), in order."""
    gpu: Gpu | None = None
    """The GPU that kernels ran on, or the target GPU (`--target`)."""
    undecided: tuple[Undecided, ...] = ()
    """Choices that only a run on the device can make (`--target`)."""
    device_questions: tuple[DeviceQuestion, ...] = ()
    """Places where the program queried the device (`--target`)."""
    time: Time = Time()
    compile_time: CompileTime = CompileTime()
    """Steps of compiling, and what caches answered."""
    speed: Speed | None = None
    """Compiled against eager, measured after the run (`explain --build`); None: it was not asked for."""
    failure: Failure | None = None
    cut_off: tuple[CutOff, ...] = ()
    """Evidence that the log is incomplete."""
    is_endless: bool = False
    """Whether the log has no end mark, because only torch wrote it; then it does not show whether the job finished."""
    exited: str = ""
    """How a program ended its own process, such as `os._exit(0)`; empty: it did not."""
    made_of: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file that the model was made of, if recorded; empty for a file without a usable digest."""
    trials: tuple[Tried, ...] = ()
    """Trials that checked advice; see `diagnosis`."""
    problems: tuple[Problem, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    """The number of log entries of each kind that ctrace does not know."""
    listings: Mapping[str, str] = field(default_factory=dict)
    """Source text by file, as it was when it ran."""
    guards: Mapping[str, GuardText] = field(default_factory=dict)
    """Guards by compilation."""
    inductor_guards: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """For a capture without Inductor: the guards that lowering added to each graph with symbolic sizes, by compilation;
    None: the graph was not lowered."""
    codes: Mapping[str, Rewritten] = field(default_factory=dict)
    """Bytecode by compilation."""
    printed: Mapping[str, Graphs] = field(default_factory=dict)
    """Graphs at every stage, as torch printed them, by compilation; `graphs` has only those that run."""

    @property
    def compared(self) -> int | None:
        """How many calls were compared with eager; None: not measured."""
        compared = [each.compared for each in self.scenarios if each.compared is not None]
        return sum(compared) if compared else None

    @property
    def verdict(self) -> Verdict:
        """The answer in one word; see `Verdict`."""
        if self.failure is not None and not self.failure.is_cut:
            return Verdict.FAILED
        if self.failure is not None or self.cut_off:
            return Verdict.INCOMPLETE
        if not self.graphs:
            return Verdict.NOT_COMPILED
        if self.breaks or self.skips or self.limit.hit:
            return Verdict.PARTIAL
        return Verdict.COMPILED
