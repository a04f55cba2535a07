"""What `ctrace kernels` answers: the kernels of each graph part, the kernels of some lines, and their code."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from ctrace.inspector.facts.built import Gpu, KernelRefusal
from ctrace.inspector.facts.kernel_facts import Launch, Stage
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.facts.target_gpu import Basis, DeviceQuestion, Undecided
from ctrace.inspector.findings.kernels.at_line import WrapperCode, some_at_line, wrappers
from ctrace.inspector.findings.kernels.bounds import Least, PartLeast, bounds, least_of
from ctrace.inspector.findings.kernels.built_view import LaunchTimes, Resources, StageCode, codes, resources, times
from ctrace.inspector.findings.kernels.kernel_view import (
    GraphNodes,
    KernelNode,
    KernelOfPart,
    PartKernels,
    Work,
    graph_nodes,
    named,
    parts,
    work_of_launch,
)
from ctrace.inspector.findings.kernels.user_kernels_view import NotedUserKernel, UserKernelCalls, calls
from ctrace.inspector.findings.target_gpu_view import (
    Open,
    TargetDevice,
    left_open,
    not_emitted,
    questions,
    target_device,
    target_of,
    target_sentence,
)
from ctrace.inspector.grouping import grouped

_Key = tuple[str, Stage, str]
"""Graph, part and name of a kernel."""


class KernelLaunch(Struct, frozen=True):
    """One call of a kernel in the wrapper of a graph part."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES ops=of.ops lines=of.lines|places read=work.read written=work.written "
        "flops=work.flops intensity=work.intensity call=of.call|null_if_empty arguments=of.arguments"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(("read", "written", "flops", "intensity"), Basis.COMPUTED)
    of: Launch

    @property
    def work(self) -> Work:
        """The bytes and operations of the call."""
        return work_of_launch(self.of)


class DetailedKernel(KernelOfPart, frozen=True, kw_only=True):
    """One kernel of one graph part, with all its calls."""

    JSON: ClassVar[str] = (
        f"{KernelOfPart.JSON} intensity=work.intensity share outputs buffers fused_from launches "
        "source=kernel.source|null_if_empty?has_code statements=kernel.statements?has_code graph_nodes?has_code"
    )
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(
        ("read", "written", "flops", "intensity", "share"), Basis.COMPUTED
    )
    built: tuple[Resources, ...]
    """The configurations that torch launches or may launch."""
    least: Least
    has_code: bool
    """Whether its code was asked for."""
    graph_nodes: GraphNodes | None

    @property
    def fused_from(self) -> tuple[KernelNode, ...]:
        """Its nodes, as JSON has them."""
        return tuple(map(KernelNode, self.nodes))

    @property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """Its calls, as JSON has them."""
        return tuple(map(KernelLaunch, self.kernel.launches))


class DetailedPart(PartKernels, frozen=True):
    """The kernels of one graph part, most bytes first; kernels with unknown bytes come last."""

    rows: tuple[DetailedKernel, ...]


class KernelsDocument(RunDocument, frozen=True, kw_only=True):
    """The kernels of each graph part, and what is known of the whole run's."""

    JSON: ClassVar[str] = (
        "schema verdict target_gpu parts user_kernels gpu built refused timed bounds undecided asked "
        "not_emitted problems=run.problems"
    )
    target_gpu: TargetDevice | None
    target_sentence: str
    """What was generated for the target GPU; empty without one."""
    listings: Mapping[str, str]
    """Source text, keyed by file."""
    parts: tuple[DetailedPart, ...]
    user_kernels: tuple[NotedUserKernel, ...]
    user_calls: tuple[UserKernelCalls, ...]
    gpu: Gpu | None
    built: tuple[Resources, ...]
    refused: tuple[KernelRefusal, ...]
    timed: tuple[LaunchTimes, ...]
    graph: str | None
    """The graph whose resources and times are shown; None: all."""
    times: tuple[LaunchTimes, ...]
    """The timed launches of that graph, with their shares in its time."""
    bounds: tuple[PartLeast, ...]
    left_open: tuple[Open, ...]
    asked: tuple[DeviceQuestion, ...]
    not_emitted: tuple[str, ...]
    graphs: int

    @property
    def undecided(self) -> tuple[Undecided, ...]:
        """The choices that need the device, by kind."""
        return tuple(each for kind in self.left_open for each in kind.choices)


class WrappersDocument(RunDocument, frozen=True, kw_only=True):
    """The function of each graph part that calls its kernels."""

    JSON: ClassVar[str] = "schema verdict target_gpu wrappers problems=run.problems"
    target_gpu: TargetDevice | None
    wrappers: tuple[WrapperCode, ...]


class StageDocument(RunDocument, frozen=True, kw_only=True):
    """What Triton compiled kernels to, at one stage."""

    JSON: ClassVar[str] = "schema verdict target_gpu code problems=run.problems"
    target_gpu: TargetDevice | None
    code: tuple[StageCode, ...]


def kernels_document(
    session: Session,
    graph: str | None = None,
    stage: str | None = None,
    *,
    kernel: str | None = None,
    line: str | None = None,
    has_code: bool = False,
) -> KernelsDocument:
    """Answer for all kernels, or for those of a graph, a stage, a name or some lines; with `has_code`, with their code.

    Raises:
        TargetError: there is no such kernel.
    """
    found = parts(session, graph, stage)
    if kernel:
        found = named(found, kernel)
    elif line:
        of_lines = some_at_line(session, line, graph, stage)
        found = tuple(replace(each.part, rows=tuple(one.row for one in each.kernels)) for each in of_lines)
    used = grouped(resources(session), lambda each: (each.built.graph, each.built.stage, each.built.kernel))
    return KernelsDocument(
        run=session.run,
        target_gpu=target_device(session),
        target_sentence=target_sentence(session),
        listings=session.listings,
        parts=tuple(_detailed(session, part, used, has_code=has_code) for part in found),
        user_kernels=tuple(map(NotedUserKernel, session.user_kernels)),
        user_calls=calls(session),
        gpu=session.gpu,
        built=resources(session, all_of_them=True),
        refused=session.refused,
        timed=times(session),
        graph=graph,
        times=times(session, graph),
        # Without a target the program's own GPU was measured, and bounds stand beside the times.
        bounds=bounds(session, found) if target_of(session) else (),
        left_open=left_open(session),
        asked=questions(session),
        not_emitted=tuple(each.id for each in not_emitted(session)),
        graphs=len(session.graphs),
    )


def _detailed(
    session: Session, part: PartKernels, used: Mapping[_Key, Sequence[Resources]], *, has_code: bool
) -> DetailedPart:
    rows = (
        DetailedKernel(
            **asdict(row),
            built=tuple(used.get((row.kernel.graph, row.kernel.stage, row.kernel.name), ())),
            least=least_of(session, row),
            has_code=has_code,
            graph_nodes=graph_nodes(session, row.kernel) if has_code else None,
        )
        for row in part.rows
    )
    return DetailedPart(graph=part.graph, stage=part.stage, rows=tuple(rows), of=part.of)


def wrappers_document(session: Session, graph: str | None = None, stage: str | None = None) -> WrappersDocument:
    """Answer for all graph parts, or for those of a graph or a stage.

    Raises:
        TargetError: there is no code for them.
    """
    return WrappersDocument(
        run=session.run, target_gpu=target_device(session), wrappers=wrappers(session, graph, stage)
    )


def stage_document(session: Session, stage: str, kernel: str | None = None, graph: str | None = None) -> StageDocument:
    """Answer for one stage of Triton's compiler, for one kernel or for all.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    return StageDocument(run=session.run, target_gpu=target_device(session), code=codes(session, stage, kernel, graph))
