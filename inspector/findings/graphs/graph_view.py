"""Find the graphs of a run at every stage; parse torch's text on demand."""

from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import SelectionError, TargetError, did_you_mean
from ctrace.inspector.facts.graph_facts import Graphs, GraphStage, Printed
from ctrace.inspector.facts.kernel_facts import Stage as Part
from ctrace.inspector.facts.session import Compilation, Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.graphs.fx import FxGraph, FxNode
from ctrace.inspector.findings.graphs.parse import input_names, parse

_INDUCTOR_ATEN = (GraphStage.BEFORE_POST_GRAD, GraphStage.POST_GRAD)
_ID = "\n # graph id: "
"""What Inductor prints after a graph, before its id (2.11 to 2.15, _inductor/compile_fx.py)."""
_PARTS = {
    GraphStage.FORWARD: Part.FORWARD,
    GraphStage.BACKWARD: Part.BACKWARD,
    GraphStage.INFERENCE: Part.INFERENCE,
    GraphStage.BEFORE_JOINT: Part.INFERENCE,
    GraphStage.AFTER_JOINT: Part.INFERENCE,
}
_TRACED = (GraphStage.DYNAMO, GraphStage.BEFORE_PRE_GRAD, GraphStage.PRE_GRAD)


class Staged(Struct, frozen=True):
    """A graph at one stage."""

    label: str
    """The name by which `--stage` selects it: `forward`, `post_grad`, `post_grad_backward`."""
    stage: GraphStage
    part: Part | None
    """Forward or backward; None if the stage covers both, or if not known."""
    printed: Printed

    @property
    def graph(self) -> FxGraph | None:
        """The parsed graph, or None if the text cannot be parsed."""
        return _parsed(self.printed.text)

    @property
    def is_traced(self) -> bool:
        """Whether the graph contains the functions and methods that the user called, instead of aten ops."""
        return self.stage in _TRACED


@lru_cache(maxsize=256)
def _parsed(text: str) -> FxGraph | None:
    body, mark, number = text.rpartition(_ID)
    if mark and number.strip().isdecimal():  # stages whose graphs differ only in that are parsed once
        return _parsed(body.rstrip())
    return parse(text)


class CompiledGraph(Struct, frozen=True):
    """One compilation's graph, at all its stages in torch's order."""

    JSON: ClassVar[str] = "basis=FIGURES id function=compilation.function file=compilation.file|relative line"
    FIGURES: ClassVar[Basis] = Basis.EMITTED
    compilation: Compilation
    graphs: Graphs
    stages: tuple[Staged, ...]
    line: int
    """The line of the function; of a resume function, where it resumes."""

    @property
    def id(self) -> str:
        """The compile id."""
        return self.compilation.id

    @property
    def values(self) -> dict[str, str]:
        """The values that symbols have in the call that triggered the compilation."""
        return {name: meant.value for name, meant in self.graphs.symbols.items()}

    def first(self, *stages: GraphStage, part: Part | None = None) -> FxGraph | None:
        """Return the graph of the first of these stages that exists; if `part` is set, only of that part."""
        for stage in stages:
            for each in self.stages:
                if each.stage is stage and part in (None, each.part) and each.graph is not None:
                    return each.graph
        return None

    @property
    def forward(self) -> FxGraph | None:
        """The aten graph that a call runs first: the forward, or without gradients the only aten graph."""
        return self.first(GraphStage.FORWARD, GraphStage.INFERENCE)

    def usual(self) -> Staged:
        """Return the default stage: the aten graph that a call runs first, else the graph that Dynamo traced.

        Raises:
            TargetError: the graph has no stages.
        """
        order = (GraphStage.FORWARD, GraphStage.INFERENCE, GraphStage.DYNAMO)
        found = (each for stage in order for each in self.stages if each.stage is stage)
        return next(found, None) or self.stage("forward")

    def stage(self, label: str) -> Staged:
        """Find a stage by its label.

        Raises:
            TargetError: no stage has that label.
        """
        name = label.strip().lower().replace("-", "_")
        found = next((each for each in self.stages if each.label == name), None)
        if found is None:
            raise TargetError(f"{label}: graph {self.id} has no such stage", instead(name, self.labels()))
        return found

    def labels(self) -> list[str]:
        """List the labels that `stage` accepts."""
        return [each.label for each in self.stages]


def with_modules(each: CompiledGraph, staged: Staged, nodes: Iterable[FxNode]) -> tuple[FxNode, ...]:
    """Name the modules of the user that compute some nodes of a stage.

    Subgraphs have nodes of the same names, and no modules.
    """
    modules = each.graphs.traced_modules if staged.is_traced else each.graphs.aten_modules
    return tuple(replace(node, module=modules.get(node.name)) for node in nodes)


def instead(name: str, known: list[str]) -> str:
    """Return advice on an unknown name: the nearest known name, or all known names."""
    return did_you_mean(name, known, f"there are: {', '.join(known) or 'none'}")


def compiled(session: Session, graph: str | None = None) -> tuple[CompiledGraph, ...]:
    """List the compilations whose graphs torch printed, or only the selected one.

    Raises:
        TargetError: there is no such graph.
    """
    known = {each.id: each for each in session.compilations}
    ids = [each for each in session.printed if each in known]
    if graph is not None and graph not in ids:
        raise SelectionError("graph", f"{graph}: this run has no such graph", instead(graph, ids))
    chosen = ids if graph is None else [graph]
    return tuple(_compiled(known[each], session.printed[each]) for each in chosen)


def only_one(session: Session, graph: str | None, why: str) -> CompiledGraph:
    """Return the selected graph; without a selection, return the only graph.

    Raises:
        TargetError: there is no graph, or several and none is selected.
    """
    found = compiled(session, graph)
    if len(found) == 1:
        return found[0]
    ids = ", ".join(each.id for each in found[:8])
    todo = f"add --graph with one of: {ids}" if found else "rerun it with this ctrace, or look at: ctrace explain"
    raise TargetError(f"{why} needs one graph, and this run has {len(found) or 'none'}", todo)


def _compiled(compilation: Compilation, graphs: Graphs) -> CompiledGraph:
    labels: dict[str, int] = {}
    stages = []
    for each in _parted(graphs.printed):
        # A stage that torch prints twice without a sign of its part still needs a label for `--stage`.
        number = labels[each.label] = labels.get(each.label, 0) + 1
        stages.append(each if number == 1 else replace(each, label=f"{each.label}_{number}"))
    return CompiledGraph(compilation, graphs, tuple(stages), compilation.resumes_at or compilation.line)


def _parted(printed: Iterable[Printed]) -> Iterable[Staged]:
    """Tell whether a graph is the forward or the backward at a stage that both have."""
    known = {each.stage: each for each in printed if each.stage in _PARTS}
    for each in printed:
        part = _part(each, known) if each.stage in _INDUCTOR_ATEN else _PARTS.get(each.stage)
        is_second = each.stage in _INDUCTOR_ATEN and part is Part.BACKWARD
        yield Staged(f"{each.stage}_backward" if is_second else str(each.stage), each.stage, part, each)


def _part(printed: Printed, known: dict[GraphStage, Printed]) -> Part | None:
    """Find the part by the names of its inputs, which passes keep; order does not show it: a backward may compile
    later.
    """
    if GraphStage.INFERENCE in known and GraphStage.FORWARD not in known:
        return Part.INFERENCE
    names = _inputs(printed.text)
    parts = [_PARTS[stage] for stage in (GraphStage.FORWARD, GraphStage.BACKWARD) if stage in known]
    shared = {part: _likeness(names, _inputs(known[GraphStage(str(part))].text)) for part in parts}
    best = max(shared, key=lambda part: shared[part], default=None)
    # A tie says nothing, e.g. where both parts take the same inputs.
    is_clear = best is not None and list(shared.values()).count(shared[best]) == 1
    return best if is_clear else None


def _likeness(some: frozenset[str], others: frozenset[str]) -> float:
    # In relation to all names: the backward takes saved values besides, so the plain number would favor it.
    return len(some & others) / max(len(some | others), 1)


@lru_cache(maxsize=256)
def _inputs(text: str) -> frozenset[str]:
    return frozenset(input_names(text))
