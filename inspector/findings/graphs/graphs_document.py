"""What `ctrace graphs` answers: all graphs, one at a stage, a line at every stage, two stages, or the passes."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.passes import Pass
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import FxGraph
from ctrace.inspector.findings.graphs.graph_lines import NodesAtLine, near, of_line, traced_inputs
from ctrace.inspector.findings.graphs.graph_summary import Overview, notes, overview
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged, compiled, only_one, with_modules
from ctrace.inspector.findings.graphs.passes_view import Origin, PassRun, between, origins, runs
from ctrace.inspector.findings.graphs.stage_diff import StageDiff, stage_diff, two_stages
from ctrace.inspector.findings.target_gpu_view import TargetDocument, target_device


class GraphsDocument(TargetDocument, frozen=True, kw_only=True):
    """A summary of all graphs, or of one."""

    JSON: ClassVar[str] = "schema verdict target_gpu graphs problems=run.problems"
    graphs: tuple[Overview, ...]


def graphs_document(session: Session, graph: str | None = None) -> GraphsDocument:
    """Summarize all graphs of a run, or one.

    Raises:
        TargetError: there is no such graph.
    """
    found = tuple(overview(session, each) for each in compiled(session, graph))
    return GraphsDocument(run=session.run, target_gpu=target_device(session), graphs=found)


class GraphStageDocument(TargetDocument, frozen=True, kw_only=True):
    """One graph at one stage, node by node."""

    JSON: ClassVar[str] = (
        "schema verdict target_gpu *each stage=staged.label graph text=staged.printed.text?is_unread "
        "problems=run.problems"
    )
    each: CompiledGraph
    staged: Staged
    graph: FxGraph | None
    """With the modules of its nodes; None if torch's text cannot be parsed."""
    inputs: tuple[str, ...]
    """The user's names for the inputs of the graph that Dynamo traced."""
    origins: Mapping[str, Origin]
    """The passes that made nodes, by the node's name."""
    notes: tuple[str, ...]
    """Text that could not be parsed, and contradictions."""

    @property
    def is_unread(self) -> bool:
        """Whether torch's text cannot be parsed."""
        return self.graph is None


def graph_stage_document(
    session: Session, graph: str | None = None, stage: str | None = None, option: str = "--stage"
) -> GraphStageDocument:
    """Show a stage of the graph, or its usual one; `option` is what the user asked with.

    Raises:
        TargetError: there is no such graph or stage, or several graphs.
    """
    each = only_one(session, graph, option)
    staged = each.stage(stage) if stage else each.usual()
    found = staged.graph
    return GraphStageDocument(
        run=session.run,
        target_gpu=target_device(session),
        each=each,
        staged=staged,
        graph=found and replace(found, nodes=with_modules(each, staged, found.nodes)),
        inputs=tuple(one.name for one in traced_inputs(session, each)),
        origins=origins(session, each.id),
        notes=tuple(notes(staged)),
    )


class GraphLineDocument(TargetDocument, frozen=True, kw_only=True):
    """The nodes of one source line in every graph at every stage; at least one."""

    JSON: ClassVar[str] = "schema verdict target_gpu line stages problems=run.problems"
    line: str
    stages: tuple[NodesAtLine, ...]


def graph_line_document(session: Session, line: str, graph: str | None = None) -> GraphLineDocument:
    """Find the nodes of `FILE:LINE` or `LINE`, in all graphs or in one.

    Raises:
        TargetError: there is no such graph, or no node of that line.
    """
    found = of_line(session, line, graph)
    if not found:
        known = [f"{Path(at.file).name}:{at.line}" for at in near(session, graph, line)]
        todo = f"lines with nodes: {', '.join(known)}" if known else "no node has a known source line"
        raise TargetError(f"--line {line}: no graph has a node from that line", todo)
    return GraphLineDocument(run=session.run, target_gpu=target_device(session), line=line, stages=found)


class StageDiffDocument(TargetDocument, frozen=True, kw_only=True):
    """What changed in a graph from one stage to another."""

    JSON: ClassVar[str] = (
        "schema verdict target_gpu *each before=diff.before.label after=diff.after.label lowered=diff.lowered "
        "changes=diff.changes passes problems=run.problems"
    )
    each: CompiledGraph
    diff: StageDiff
    runs: tuple[PassRun, ...]
    """The runs of passes in between."""
    passes: list[Pass]
    """Of these runs, those that changed the graph."""


def stage_diff_document(session: Session, stages: str, graph: str | None = None) -> StageDiffDocument:
    """Compare the graph at two stages, `before..after`, or before and after the passes of a stage.

    Raises:
        TargetError: there is no such graph or stage, several graphs, or a stage cannot be read.
    """
    each = only_one(session, graph, "--diff")
    diff = stage_diff(each, *two_stages(each, stages))
    found = between(session, each, diff.before, diff.after)
    changed = [one for run in found for one in run.changed]
    return StageDiffDocument(
        run=session.run, target_gpu=target_device(session), each=each, diff=diff, runs=found, passes=changed
    )


class PassesDocument(TargetDocument, frozen=True, kw_only=True):
    """What each pass changed in one graph, or in all."""

    JSON: ClassVar[str] = "schema verdict target_gpu passes problems=run.problems"
    passes: tuple[Pass, ...]
    runs: tuple[PassRun, ...]
    """The same, by graph, stage and subsystem."""


def passes_document(session: Session, graph: str | None = None) -> PassesDocument:
    """List the passes over one graph, or over all.

    Raises:
        TargetError: there is no such graph.
    """
    if graph is not None:
        # Only for its error: a graph without passes is an answer, an unknown one is not.
        compiled(session, graph)
    found = tuple(each for each in session.passes if graph in (None, each.graph))
    return PassesDocument(run=session.run, target_gpu=target_device(session), passes=found, runs=runs(session, graph))
