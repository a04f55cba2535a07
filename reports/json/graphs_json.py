"""Graphs, and what each pass changed, as JSON, for programs."""

from collections.abc import Iterable, Mapping
from typing import Any

from ctrace.inspector.facts.graph_facts import Module
from ctrace.inspector.facts.passes import Attention, Pass
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.graphs.attention_view import AttentionGroup, answers
from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, op_name
from ctrace.inspector.findings.graphs.graph_lines import NodesAtLine
from ctrace.inspector.findings.graphs.graph_summary import Overview, SavedByForward, overview
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged, modules_of
from ctrace.inspector.findings.graphs.passes_view import PassRun, between, difference
from ctrace.inspector.findings.graphs.stage_diff import LineChange, LineLowered, StageDiff
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document
from ctrace.reports.json.target_json import render_of_run


def render_graphs_json(session: Session, found: tuple[CompiledGraph, ...]) -> Document:
    """Write a summary of all graphs, indented, with a final newline."""
    cwd = session.environment.cwd
    graphs = [
        {**_overview(overview(session, each), cwd), "attention": attention_data(session, each.id)} for each in found
    ]
    return render_of_run(session, {"graphs": graphs})


def render_passes_json(session: Session, graph: str | None) -> Document:
    """Write what each pass did to one graph, or to all."""
    return render_of_run(session, {"passes": passes_data(session, graph)})


def render_stage_json(session: Session, each: CompiledGraph, staged: Staged) -> Document:
    """Write one graph at one stage, node by node."""
    cwd = session.environment.cwd
    graph = staged.graph
    data = {**_head(each, cwd), "stage": staged.label, "graph": graph and _graph(graph, cwd, modules_of(each, staged))}
    return render_of_run(session, data if graph else {**data, "text": staged.printed.text})


def render_line_json(session: Session, line: str, found: tuple[NodesAtLine, ...]) -> Document:
    """Write the nodes of one source line at every stage."""
    cwd = session.environment.cwd
    stages = [
        {
            "graph": one.each.id,
            "stage": one.staged.label,
            "nodes": _nodes(one.nodes, cwd, modules_of(one.each, one.staged)),
        }
        for one in found
    ]
    return render_of_run(session, {"line": line, "stages": stages})


def render_diff_json(session: Session, each: CompiledGraph, diff: StageDiff) -> Document:
    """Write what changed from one stage to another."""
    cwd = session.environment.cwd
    data = {
        **_head(each, cwd),
        "before": diff.before.label,
        "after": diff.after.label,
        "lowered": [_lowered(line, cwd) for line in diff.lowered],
        "changes": [_change(line, cwd) for line in diff.changes],
        "passes": [one for run in between(session, each, diff.before, diff.after) for one in run_data(run, cwd)],
    }
    return render_of_run(session, data)


def _head(each: CompiledGraph, cwd: str) -> dict[str, Any]:
    at = each.compilation
    return {
        "basis": str(Basis.EMITTED),
        "id": each.id,
        "function": at.function,
        "file": fmt.relative(at.file, cwd),
        "line": at.resumes_at or at.line,
    }


def _overview(view: Overview, cwd: str) -> dict[str, Any]:
    symbols = view.each.graphs.symbols
    mutated = (
        None
        if view.changed is None
        else [{"name": one.name, "data": one.data, "metadata": one.metadata} for one in view.changed]
    )
    return {
        **_head(view.each, cwd),
        "stages": [
            {
                "stage": row.staged.label,
                "nodes": row.nodes,
                "ops": row.ops,
                "counts": dict(row.counts),
                "same_as": row.same_as or None,
            }
            for row in view.rows
        ],
        "symbols": {name: {"name": meant.name, "value": meant.value} for name, meant in symbols.items()},
        "inputs": [{"name": each.name, "role": each.role or None, **_type(each.node)} for each in view.inputs],
        "mutated": mutated,
        "outputs": [
            {
                "name": one.text,
                "shares": one.shares and str(one.shares),
                "input": one.base or None,
                **(_type(one.node) if one.node else {}),
            }
            for one in view.results
        ],
        "saved": view.kept and _kept(view.kept, cwd),
        "recomputed": view.recomputed and [node.name for node in view.recomputed.nodes],
        "notes": list(view.notes),
    }


def _kept(kept: SavedByForward, cwd: str) -> dict[str, Any]:
    return {
        "basis": str(Basis.COMPUTED),
        "bytes": kept.made,
        "symbols": list(kept.symbols),
        "tensors": [
            {
                "name": each.node.name,
                "bytes": each.memory and each.memory.bytes,
                "memory_of": each.root.name,
                "made": each.is_made,
                "input": each.input and each.input.name,
                "output": each.is_returned,
                **_type(each.node),
                **_at(each.root.at or each.node.at, cwd),
            }
            for each in kept.saved
        ],
    }


def _graph(graph: FxGraph, cwd: str, modules: Mapping[str, Module]) -> dict[str, Any]:
    return {
        "name": graph.name,
        "nodes": _nodes(graph.nodes, cwd, modules),
        "outputs": [{"value": output.text, "is": output.described or None} for output in graph.outputs],
        "graphs": [_graph(each, cwd, {}) for each in graph.graphs],
        "unread": list(graph.unread),
    }


def _nodes(nodes: Iterable[FxNode], cwd: str, modules: Mapping[str, Module]) -> list[dict[str, Any]]:
    return [_node(node, cwd, modules.get(node.name)) for node in nodes]


def _node(node: FxNode, cwd: str, module: Module | None) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": str(node.kind),
        "target": node.target,
        "op": op_name(node),
        "args": node.args,
        "uses": list(node.uses),
        **_type(node),
        **_at(node.at, cwd),
        "is": node.described or None,
        "recompute": node.tag or None,
        "module": module and module.path,
        "module_class": module and module.kind,
    }


def _type(node: FxNode) -> dict[str, Any]:
    type_ = node.type
    return {
        "dtype": type_ and type_.dtype,
        "sizes": type_ and list(type_.sizes),
        "strides": type_ and type_.strides and list(type_.strides),
        "device": (type_ and type_.device) or None,
        "class": (type_ and type_.wrapper) or None,
        "symbol": node.symbol or None,
    }


def _at(at: At | None, cwd: str) -> dict[str, Any]:
    return {"file": at and fmt.relative(at.file, cwd), "line": at and at.line, "source": at and at.code}


def _lowered(line: LineLowered, cwd: str) -> dict[str, Any]:
    counts = {"before": line.before, "after": line.after, "same": line.same}
    return {**_at(line.at, cwd), **{name: dict(ops) for name, ops in counts.items()}, "nodes": _names(line.nodes)}


def _change(line: LineChange, cwd: str) -> dict[str, Any]:
    return {
        **_at(line.at, cwd),
        "removed": [
            {"name": gone.node.name, "target": gone.node.target, "why": str(gone.why), "same_as": gone.same_as or None}
            for gone in line.gone
        ],
        "added": [{"name": node.name, "target": node.target, "args": node.args} for node in line.new],
        "other_op": [{"name": new.name, "was": old.target, "now": new.target} for old, new in line.other_op],
        "other_args": [{"name": new.name, "was": old.args, "now": new.args} for old, new in line.other_args],
        "same": len(line.same),
        "constant": line.is_constant,
    }


def _names(nodes: Iterable[FxNode]) -> list[str]:
    return [node.name for node in nodes]


def passes_data(session: Session, graph_id: str | None = None) -> list[dict[str, Any]]:
    """Return the passes over one graph or all graphs; a pass that changed nothing has only its name."""
    cwd = session.environment.cwd
    return [_pass(each, cwd) for each in session.passes if graph_id in (None, each.graph)]


def run_data(run: PassRun, cwd: str) -> list[dict[str, Any]]:
    """Return the passes that changed the graph in one run of a subsystem."""
    return [_pass(each, cwd) for each in run.changed]


def _pass(each: Pass, cwd: str) -> dict[str, Any]:
    head = {
        "graph": each.graph,
        "stage": each.stage,
        "subsystem": each.subsystem or None,
        "name": each.title,
        "within": list(each.within),
        "nodes_before": each.before,
        "nodes_after": each.after,
        "changed": each.has_changed,
    }
    if not each.has_changed and not each.patterns:
        return head
    return {
        **head,
        "ops": difference(each),
        "created": [{"name": name, "op": op} for name, op in each.created],
        "erased": [{"name": name, "op": op} for name, op in each.erased],
        "retargeted": [{"name": name, "before": before, "after": after} for name, before, after in each.retargeted],
        "rewired": each.rewired,
        "moved": each.moved,
        "counters": dict(each.counters),
        "patterns": [
            {
                "name": pattern.name,
                "times": pattern.times,
                "nodes": pattern.nodes,
                "ops": list(pattern.ops),
                "lines": [line_data(line, cwd) for line in pattern.lines],
            }
            for pattern in each.patterns
        ],
    }


def attention_data(session: Session, graph_id: str | None = None) -> list[dict[str, Any]]:
    """Return the outcome of each attention in one graph or in all graphs."""
    cwd = session.environment.cwd
    return [_passes_attention(each, cwd) for each in answers(session, graph_id)]


def _passes_attention(answer: AttentionGroup, cwd: str) -> dict[str, Any]:
    each = answer.attention
    return {
        "graph": each.graph,
        "stage": each.stage,
        "state": str(answer.state),
        "by_hand": each.call is None,
        "times": answer.times,
        "lines": [line_data(line, cwd) for line in each.lines],
        "nodes": list(each.nodes),
        "dtype": each.dtype,
        "device": each.device,
        "fused": list(each.fused),
        "pattern": each.matched,
        "counted": each.counted,
        "softmax_dimension": each.axis,
        "why": _why(each, answer, cwd),
        "fix": answer.fix,
    }


def _why(each: Attention, answer: AttentionGroup, cwd: str) -> dict[str, Any] | None:
    if each.why is None:
        if answer.why:
            return {"code": str(answer.state), "text": answer.why, "lines": []}
        return None
    return {
        "code": each.why.code,
        "text": answer.why,
        "nearest_pattern": each.why.pattern or None,
        "also": list(each.why.also),
        "lines": [line_data(line, cwd) for line in each.why.lines],
    }


def line_data(line: str, cwd: str) -> dict[str, Any]:
    """Split `file:line`."""
    file, _, number = line.rpartition(":")
    return {"file": fmt.relative(file, cwd), "line": int(number)}
