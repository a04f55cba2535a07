"""What `ctrace explain` answers: what a run showed, why, and what to do."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.recompiles_document import AdvisedGroup, advised_groups
from ctrace.inspector.diagnosis.sentences import advised
from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.facts.cluster_facts import ClusterFacts
from ctrace.inspector.facts.compile_time import Speed, TorchCachesUsed
from ctrace.inspector.facts.diagnosis import Diagnosis, Finding
from ctrace.inspector.facts.fake_facts import Assumed, ModelLoaded, Stopped
from ctrace.inspector.facts.findings import Break, Danger, Limit, Recompile, Skip
from ctrace.inspector.facts.graph_facts import Unrolled
from ctrace.inspector.facts.session import (
    Compilation,
    Coverage,
    Environment,
    Failure,
    Function,
    Graph,
    PhaseTimes,
    RunDocument,
    Scenario,
    Session,
    Target,
    TorchRecord,
)
from ctrace.inspector.facts.target_gpu import Basis, DeviceQuestion, Undecided
from ctrace.inspector.facts.trial import UNCHANGED, LaterCalls, later_calls_of
from ctrace.inspector.findings.breaks.break_view import RankedBreak, never_compiled, ranked
from ctrace.inspector.findings.compile_time_fold import AllMetrics, all_metrics
from ctrace.inspector.findings.cuda_graph_view import sentence as cuda_graphs_sentence
from ctrace.inspector.findings.graphs.attention_view import (
    AttentionGroup,
    AttentionKind,
    AttentionState,
    answers,
    kinds,
    unfused,
)
from ctrace.inspector.findings.graphs.cuts import Cut, cuts, happened
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, rows
from ctrace.inspector.findings.kernels.user_kernels_view import in_one_line, stuck
from ctrace.inspector.findings.scenario_view import Provoked, not_compared, provoked, recompiles_in, why_no_coverage
from ctrace.inspector.findings.shape_view import violations
from ctrace.inspector.findings.target_gpu_view import TargetDevice, left_open, not_emitted, questions, target_device
from ctrace.inspector.session.summary import (
    LEFT_OUT,
    CodeTotals,
    LeftOut,
    RunAnswer,
    code_totals,
    guard_count,
    next_steps,
    run_answer,
)


class RunSetup(Struct, frozen=True):
    """Versions, device and backend of a run, what it did not look at, and the GPU that it generated code for."""

    JSON: ClassVar[str] = "*of not_looked_at target_gpu"
    of: Environment
    not_looked_at: tuple[LeftOut, ...] | tuple[()]
    target_gpu: TargetDevice | None


class ErrorOfRun(Struct, frozen=True):
    """How a run failed, and what of the user's marks contradicts the code."""

    JSON: ClassVar[str] = "phase=of.phase type=of.type message=of.message file=of.file|relative line=of.line because"
    of: Failure
    because: tuple[str, ...]


class ScenarioResult(Struct, frozen=True):
    """A named way to call the model, and what its calls showed."""

    JSON: ClassVar[str] = (
        "name=of.name calls=of.calls *coverage kind=of.kind outcome=of.outcome message=of.message|null_if_empty "
        "recompiles compared=of.compared not_compared=of.not_compared|null_if_empty rule=of.comparison.rule "
        "eager_error=of.comparison.eager_error compiled_error=of.comparison.compiled_error no_reference"
    )
    of: Scenario
    recompiles: int

    @property
    def coverage(self) -> Coverage:
        """How much of its calls was compiled."""
        return self.of.coverage

    @property
    def no_reference(self) -> str | None:
        """Why there was no reference although one was needed."""
        return (self.of.comparison and self.of.comparison.no_reference) or None


class SplitGraph(Struct, frozen=True):
    """A graph, and the graphs that breaks separate from it."""

    JSON: ClassVar[str] = "*of cut_by"
    of: Graph
    cut_by: tuple[Cut, ...]
    fate: str
    """Its backward and its attention, in a few words."""


class TimeOfRun(Struct, frozen=True):
    """How long a run took, and how long the trials of its advice; in seconds."""

    JSON: ClassVar[str] = "basis=FIGURES *of advice"
    FIGURES: ClassVar[Basis] = Basis.MEASURED
    of: PhaseTimes
    advice: float | None


class ExplainDocument(RunDocument, frozen=True, kw_only=True):
    """What a run showed, why, and what to do."""

    JSON: ClassVar[str] = (
        "schema verdict environment=setup target error incomplete=run.cut_off exited|null_if_empty fake "
        "parameters=model.parameters parameter_bytes=model.parameter_bytes layers assumed stopped rank=cluster.rank "
        "world=cluster.world scenarios graphs unrolled attention compilations coverage functions breaks skipped "
        "recompiles dangers=known_dangers limit outlook fusion=totals.fusion kernels undecided asked not_emitted time "
        "speed culprits=accuracy.culprits accuracy causes=diagnosis.causes advice=diagnosis.advice "
        "problems=run.problems unknown not_shown records metrics"
    )
    setup: RunSetup
    target: Target
    error: ErrorOfRun | None
    exited: str
    """How the program ended its own process, such as `os._exit(0)`; empty if it did not."""
    model: ModelLoaded | None
    assumed: tuple[Assumed, ...]
    stopped: Stopped | None
    cluster: ClusterFacts | None
    scenarios: tuple[ScenarioResult, ...]
    graphs: tuple[SplitGraph, ...]
    unrolled: tuple[Unrolled, ...]
    attention: tuple[AttentionGroup, ...]
    compilations: tuple[Compilation, ...]
    coverage: Coverage
    functions: tuple[Function, ...]
    breaks: tuple[Break, ...]
    skipped: tuple[Skip, ...]
    recompiles: tuple[Recompile, ...]
    dangers: tuple[Danger, ...]
    is_compared: bool
    """Whether calls were compared with eager."""
    limit: Limit
    outlook: LaterCalls | None
    totals: CodeTotals
    kernels: tuple[KernelOfPart, ...]
    undecided: tuple[Undecided, ...]
    asked: tuple[DeviceQuestion, ...]
    not_emitted: tuple[str, ...]
    time: TimeOfRun
    speed: Speed | None
    accuracy: Accuracy | None
    diagnosis: Diagnosis
    unknown: Mapping[str, int]
    """How many log entries there are of each kind that ctrace does not know."""
    not_shown: Mapping[str, int]
    """How many log entries there are of each kind that ctrace knows and does not show."""
    records: tuple[TorchRecord, ...]
    metrics: AllMetrics
    answer: RunAnswer
    caches: TorchCachesUsed
    violations: tuple[str, ...]
    """What contradicts the user's marks of sizes."""
    next_steps: tuple[str, ...]
    """What to do where there is no advice."""
    later_error: str
    """What the last of more calls raised; empty: nothing."""
    never_compiled: tuple[Function, ...]
    not_compared: Mapping[str, list[str]]
    """The scenarios with calls that were not compared with eager, by reason."""
    provoked: tuple[Provoked, ...]
    """What `--provoke` tried."""
    why_no_coverage: str
    """Why the share of ops in graphs is not measured; empty: it is."""
    guards: int | None
    """The guards of all compilations; None: not measured."""
    contents: tuple[str, ...]
    """Which of graphs, guards, kernels and fusions the run has, as a Session names them."""
    cuda_graphs: str
    """What became of CUDA graphs, in one sentence; empty: they were not enabled."""
    user_kernels: str
    """The user's own Triton kernels, in one line; empty: there are none."""
    notes_on_user_kernels: tuple[str, ...]
    """What keeps the user's kernels from being compiled for their device."""
    slow_attention: tuple[AttentionKind, ...]
    """The attentions that could run faster, without those that compute wrong results."""
    ranked: tuple[RankedBreak, ...]
    """The breaks, the costliest first."""
    fixes: Mapping[int, str]
    """What to do about each break, by its number; breaks without advice are left out."""
    groups: tuple[AdvisedGroup, ...]

    @property
    def fake(self) -> bool:
        """Whether the model had no weights."""
        return self.model is not None and self.model.fake

    @property
    def layers(self) -> ModelLoaded | None:
        """The layers that `--layers` left and cut; None without the option."""
        return None if self.model is None or self.model.layers is None else self.model

    @property
    def known_dangers(self) -> tuple[Danger, ...] | None:
        """The wrong results; None: results were not compared, or are not real."""
        return self.dangers if self.is_compared and not self.fake else None


def explain_document(session: Session, *, whole: bool = True) -> ExplainDocument:
    """Answer for a run; without `whole`, leave out kernels, fusion, metrics and what separates graphs."""
    left_out = LEFT_OUT if session.environment.fast else ()
    error = ErrorOfRun(session.failure, violations(session)) if session.failure else None
    # None: no advice was tried, which is not 0 s.
    seconds = sum(each.seconds for each in session.trials) if session.trials else None
    found = cuts(session) if whole else ()
    fates = happened(session)
    kernels = rows(session) if whole else ()
    metrics = all_metrics(session) if whole else AllMetrics((), ())
    return ExplainDocument(
        run=session.run,
        setup=RunSetup(session.environment, left_out, target_device(session)),
        target=session.target,
        error=error,
        exited=session.exited,
        model=session.model,
        assumed=session.assumed,
        stopped=session.stopped,
        cluster=session.cluster,
        scenarios=tuple(ScenarioResult(each, len(recompiles_in(session, each))) for each in session.scenarios),
        graphs=tuple(
            SplitGraph(graph, tuple(each for each in found if each.before == graph.id), fates[graph.id])
            for graph in session.graphs
        ),
        unrolled=session.unrolled,
        attention=answers(session),
        compilations=session.compilations,
        coverage=session.coverage,
        functions=session.functions,
        breaks=session.breaks,
        skipped=session.skips,
        recompiles=session.recompiles,
        dangers=session.dangers,
        is_compared=session.compared is not None,
        limit=session.limit,
        outlook=later_calls_of(session.trials),
        totals=code_totals(session, whole=whole),
        kernels=kernels,
        undecided=tuple(each for kind in left_open(session) for each in kind.choices),
        asked=questions(session),
        not_emitted=tuple(graph.id for graph in not_emitted(session)),
        time=TimeOfRun(session.time, seconds),
        speed=session.speed,
        accuracy=session.accuracy,
        diagnosis=diagnose(session),
        unknown=session.unknown,
        not_shown=session.not_shown,
        records=session.records,
        metrics=metrics,
        answer=run_answer(session),
        caches=session.compile_time.use,
        violations=violations(session),
        next_steps=next_steps(session),
        later_error=next((each.error for each in session.trials if each.trial == UNCHANGED), ""),
        never_compiled=never_compiled(session),
        not_compared=not_compared(session),
        provoked=provoked(session),
        why_no_coverage=why_no_coverage(session),
        guards=guard_count(session),
        contents=tuple(name for name in ("graphs", "guards", "kernels", "fusions") if getattr(session, name)),
        cuda_graphs=cuda_graphs_sentence(session),
        user_kernels=in_one_line(session),
        notes_on_user_kernels=tuple(note.text for _, note in stuck(session)),
        slow_attention=kinds(each for each in unfused(session) if each.state is not AttentionState.WRONG),
        ranked=ranked(session),
        fixes=advised(session, Finding.BREAK),
        groups=advised_groups(session),
    )
