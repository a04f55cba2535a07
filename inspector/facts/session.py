"""Everything that a run showed, as plain frozen records with small look-ups. `Session` is the root. `session/build.py`
fills all of it from a trace log, without torch. A *compilation* is one entry in a function's cache (`0/1`). A *graph*
is what one compilation passed to the backend. A *break* is a place that splits a function into several graphs.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.facts.autotuning import TunedKernel, TunedOperation
from ctrace.inspector.facts.built import Built, Gpu, KernelRefusal, LaunchTiming
from ctrace.inspector.facts.bytecode_facts import Rewritten
from ctrace.inspector.facts.cluster_facts import ClusterFacts
from ctrace.inspector.facts.compile_time import CompileTime, Metrics, Speed
from ctrace.inspector.facts.cuda_graphs import CudaGraph
from ctrace.inspector.facts.fake_facts import Assumed, ModelLoaded, Stopped
from ctrace.inspector.facts.findings import Break, Danger, Limit, Recompile, Skip
from ctrace.inspector.facts.fusion_facts import Fusion
from ctrace.inspector.facts.graph_facts import Graphs, Unrolled
from ctrace.inspector.facts.guard_facts import GuardText
from ctrace.inspector.facts.kernel_facts import Kernel, KernelCall, OutputCode, Stage
from ctrace.inspector.facts.memory_facts import FoundMemory
from ctrace.inspector.facts.outcome import Asked, CutOff
from ctrace.inspector.facts.outcome import Failure as Failure
from ctrace.inspector.facts.outcome import FailurePhase as FailurePhase
from ctrace.inspector.facts.outcome import Target as Target
from ctrace.inspector.facts.passes import Attention, Pass
from ctrace.inspector.facts.scenario_facts import Comparison, EagerResult, Outcome, ScenarioKind
from ctrace.inspector.facts.shape_facts import Shaped
from ctrace.inspector.facts.stored import HasText, Text
from ctrace.inspector.facts.target_gpu import DeviceQuestion, Undecided
from ctrace.inspector.facts.trial import Part, Tried
from ctrace.inspector.facts.user_kernels import UserKernel


class Verdict(StrEnum):
    """Whether torch.compile compiled the whole model, a part of it, or nothing."""

    COMPILED = "compiled"
    """There are graphs, and no breaks, no skips and no recompile limit hit."""
    PARTIAL = "partial"
    """There are graphs, and a break, a skip or a recompile limit hit."""
    NOT_COMPILED = "not_compiled"
    """There is no graph."""
    FAILED = "failed"
    """Compiling or the program raised."""
    INCOMPLETE = "incomplete"
    """The run or its log was cut off, so no other verdict is possible."""


class Environment(Struct, frozen=True):
    """Versions, device and backend of a run; empty for those that the log does not have."""

    JSON: ClassVar[str] = "ctrace torch triton python device backend built fast"
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
    """The owner of each folder (`torch` or `library`), as the capturing process saw it."""
    cwd: str = ""
    switched_off: str | None = None
    """What disabled torch.compile, such as an environment variable."""
    settings: Mapping[str, bool] = field(default_factory=dict)
    """Those of `torch._dynamo.config` that advice may change, as the last compilation had them."""
    seed: int | None = None
    """What the generators of random numbers started with, for runs to compare with this one; None: not known."""


class Scenario(Struct, frozen=True):
    """A named way to call the model, and what its calls showed."""

    name: str
    calls: int = 0
    # By a lambda, because `Coverage` is declared below.
    coverage: "Coverage" = field(default_factory=lambda: Coverage())
    kind: ScenarioKind = ScenarioKind.GIVEN
    outcome: Outcome = Outcome.DONE
    message: str = ""
    """The exception that the calls raised; empty if the outcome is `done`."""
    compared: int | None = None
    """How many calls were compared with eager; None: not measured, as in a program."""
    not_compared: str = ""
    """Why the other calls were not compared."""
    call_seconds: float | None = None
    """Time of a compiled call without compilation, the minimum of a few; None: not measured."""
    comparison: Comparison | None = None
    """How ctrace judged the results of the call that was hardest to decide; None: not compared, or not recorded."""
    training: bool | None = None
    """Whether the model was in training mode; None: not known, as in a program."""
    unused_grad: bool | None = None
    """Whether calls recorded gradients of parameters although no backward ran; None: not known."""
    eager_result: EagerResult | None = None
    """What its first eager call returned; None: there was none, or its results were not read."""


class Coverage(Struct, frozen=True):
    """How many aten ops one eager call dispatches, and how many of these are in graphs; None: not measured."""

    ops: int | None = None
    compiled: int | None = None


class Graph(Struct, frozen=True):
    """What one compilation handed to the backend."""

    JSON: ClassVar[str] = "id function file|relative line ops"
    id: str
    function: str
    file: str
    line: int
    ops: int


class Bytecode(Struct, frozen=True):
    """How many bytes a function's bytecode has before and after Dynamo."""

    before: int
    after: int


class Compilation(Struct, frozen=True):
    """One entry of a function's cache, or a failed attempt to create one."""

    JSON: ClassVar[str] = "id function file|relative line guards bytecode attempts seconds"
    id: str
    function: str
    """The name of the compiled function; for a resume function, the name of the function that it resumes."""
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
    """The module whose method was compiled, as class and number; several modules share the cache of one method."""
    scenario: str | None = None
    """The scenario of the call; None for a program."""
    call: int | None = None
    """Which call of the scenario, from 0."""

    @property
    def frame(self) -> str:
        """Dynamo's number of the code object, the part of the id before the slash."""
        return self.id.partition("/")[0]


class Function(Struct, frozen=True):
    """A function of the model or program, with its graphs and its share of compiled ops."""

    JSON: ClassVar[str] = "function=name file|relative line graphs asked_for=compiled_for_itself *coverage"
    name: str
    """The qualified name, if torch or the eager call reports it."""
    file: str
    line: int
    graphs: int = 0
    """Its graphs, including those of its resume functions; empty for a function that Dynamo inlined into another."""
    coverage: Coverage = Coverage()
    compiled_for_itself: bool = False
    """Whether Dynamo compiled it directly, and not only while it compiled another function in this list."""


class PhaseTimes(Struct, frozen=True):
    """Times in seconds. `total` is the whole capture; torch measures the phases. `codegen` is the time of code
    generation that ran in parallel on another core; other code generation is part of `inductor`.
    """

    total: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


class Problem(Struct, frozen=True):
    """Something that ctrace could not read or measure, or on which two sources disagree."""

    JSON: ClassVar[str] = "what line"
    what: str
    line: int | None = None
    """The line of the trace log that has the problem; None if no single line has it."""
    is_doubt: bool = False
    """Whether the report may be wrong or incomplete because of the problem."""


class TorchRecord(HasText, Struct, frozen=True):
    """A record of torch, shown as it is."""

    JSON: ClassVar[str] = "name compilation line text=beginning length"
    LONGEST: ClassVar[int] = 20_000
    """Chosen: records that no view knows are there to be searched, and one of them may be a whole graph."""
    name: str
    """Torch's name of the artifact, such as `min_cut_information`."""
    compilation: str | None
    line: int
    """Its line in the trace log."""
    body: Text

    @property
    def beginning(self) -> str:
        """The first characters of its text."""
        return self.text[: self.LONGEST]

    @property
    def length(self) -> int:
        """How many characters the whole text has."""
        return len(self.text)


class TorchCode(HasText, Struct, frozen=True):
    """The module of a graph part as torch itself logged it; `kernels/emitted_code.py` reads its kernels."""

    graph: str
    stage: Stage
    body: Text
    stack_text: str = ""
    """Torch's stack traces of its kernels, as JSON; empty: not in the log."""


class RunFacts(Struct, frozen=True):
    """What each view of a run says of the run itself."""

    environment: Environment
    verdict: "Verdict"
    problems: tuple[Problem, ...]
    cut_off: tuple[CutOff, ...]


class RunDocument(Struct, frozen=True, kw_only=True):
    """The answer of a view to a question about a run: all that the printers of its screen and of its JSON get."""

    run: RunFacts

    @property
    def cwd(self) -> str:
        """The run's working directory, in which paths are shortened."""
        return self.run.environment.cwd

    @property
    def verdict(self) -> Verdict:
        """The verdict on the run."""
        return self.run.verdict


class Session(Struct, frozen=True):
    """Everything one run showed."""

    environment: Environment = Environment()
    target: Target = field(default_factory=Target)
    scenarios: tuple[Scenario, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    graphs: tuple[Graph, ...] = ()
    unrolled: tuple[Unrolled, ...] = ()
    """Loops outside of torch that Dynamo unrolled, most ops first; of several graphs, the one with the most ops."""
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
    kernel_calls: tuple[KernelCall, ...] = ()
    """The arguments of each call of a generated kernel; empty in a log of an older ctrace."""
    user_kernels: tuple[UserKernel, ...] = ()
    cuda_graphs: tuple[CudaGraph, ...] = ()
    """One record for each graph part, if CUDA graphs are enabled."""
    tuned: tuple[TunedOperation, ...] = ()
    """Operations that torch has several ways to compute, or one library call (`max_autotune`)."""
    tuned_kernels: tuple[TunedKernel, ...] = ()
    """Triton kernels for which torch chose one of several configurations (`--build` on a GPU)."""
    built: tuple[Built, ...] = ()
    """Compiled Triton kernels (`--build` on a GPU, or `--target`), one record for each configuration."""
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
    time: PhaseTimes = PhaseTimes()
    compile_time: CompileTime = CompileTime()
    """Steps of compiling, and what caches answered."""
    speed: Speed | None = None
    """Compiled against eager, measured after the run (`explain --build`); None: it was not asked for."""
    accuracy: Accuracy | None = None
    """Each kernel beside eager and float64, compared after the run; None: it was not asked for, or not needed."""
    memory: FoundMemory | None = None
    """The memory of a step, followed after the run; None: it was not asked for."""
    failure: Failure | None = None
    cut_off: tuple[CutOff, ...] = ()
    """Evidence that the log is incomplete."""
    is_endless: bool = False
    """Whether the log has no end mark because only torch wrote it; then nobody can tell whether the job finished."""
    exited: str = ""
    """How the program ended its own process, such as `os._exit(0)`; empty if it did not."""
    made_of: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 digests of the files that the model was loaded from; empty for a file without a usable digest."""
    asked: Asked = Asked()
    """What else the model's code asked, in a run of `ctrace check`."""
    trials: tuple[Tried, ...] = ()
    """The trials that checked advice; see `diagnosis`."""
    parts: tuple[Part, ...] = ()
    """The modules of a model file's target, outer ones first; empty for a program."""
    model: ModelLoaded | None = None
    """The size of a model file's target; None: a program, a log of torch, or the target was not loaded."""
    assumed: tuple[Assumed, ...] = ()
    """What the run assumed about values that do not exist (`--fake`)."""
    stopped: Stopped | None = None
    """The first place where a call stopped because a value does not exist (`--fake`)."""
    cluster: ClusterFacts | None = None
    """What this rank of a virtual cluster (`--world N`) did; None: no such rank."""
    calls: int = 0
    """All calls of the compiled model in a model file's scenarios."""
    problems: tuple[Problem, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    """How many log entries there are of each kind that ctrace does not know."""
    not_shown: Mapping[str, int] = field(default_factory=dict)
    """How many log entries there are of each kind that ctrace knows and does not show."""
    torch_code: tuple[TorchCode, ...] = ()
    """The modules in a log that only torch wrote."""
    records: tuple[TorchRecord, ...] = ()
    """Records of torch that ctrace shows as they are; see `RECORDS`."""
    metrics: tuple[Metrics, ...] = ()
    """All of torch's metrics, for each compilation."""
    listings: Mapping[str, str] = field(default_factory=dict)
    """Source text, keyed by file, as it was when it ran."""
    guards: Mapping[str, GuardText] = field(default_factory=dict)
    """Guards by compilation."""
    inductor_guards: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """For a capture without Inductor: the guards that lowering added to each graph with symbolic sizes, keyed by
    compilation; None: the graph was not lowered.
    """
    late_guards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a capture with Inductor: the guards that it and AOTAutograd added to each graph with symbolic sizes."""
    codes: Mapping[str, Rewritten] = field(default_factory=dict)
    """Bytecode by compilation."""
    printed: Mapping[str, Graphs] = field(default_factory=dict)
    """Graphs at every stage as torch printed them, keyed by compilation; `graphs` has only the graphs that run."""

    def __repr__(self) -> str:
        """Return one line: a failing assert or a print shows it, and all fields of a session take hundreds of KB."""
        counts = {
            "graphs": len(self.graphs),
            "graph breaks": len(self.breaks),
            "functions in eager": len(self.skips),
            "recompilations": len(self.recompiles),
            "wrong results": len(self.dangers),
        }
        # No graphs are news; no breaks are not.
        shown = [f"{name} {number}" for name, number in counts.items() if number or name == "graphs"]
        shown += ["recompile limit hit"] if self.limit.hit else []
        failed = f" ({self.failure.type})" if self.failure is not None else ""
        return f"<Session {self.verdict}{failed}: {', '.join(shown)}; ctrace.text(session) is the report>"

    @property
    def run(self) -> RunFacts:
        """What each view says of the run."""
        return RunFacts(self.environment, self.verdict, self.problems, self.cut_off)

    @property
    def compared(self) -> int | None:
        """How many calls were compared with eager; None: not measured."""
        # Not 0 where nothing was compared, as in a program: 0 says that a comparison was tried and left out each call.
        compared = [each.compared for each in self.scenarios if each.compared is not None]
        return sum(compared) if compared else None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the run."""
        # A program that raises may also leave a compilation unfinished; its exception says more.
        if self.failure is not None and not self.failure.is_cut:
            return Verdict.FAILED
        if self.failure is not None or self.cut_off:
            return Verdict.INCOMPLETE
        # Before the breaks, because a break without a graph leaves nothing compiled.
        if not self.graphs:
            return Verdict.NOT_COMPILED
        if self.breaks or self.skips or self.limit.hit:
            return Verdict.PARTIAL
        return Verdict.COMPILED
