"""Write kernels as JSON, including user-written Triton kernels.

Compiled kernels of `--build` or `--target` as data for JSON reports; times in seconds, memory in bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ctrace.inspector.facts.fusion_facts import Node
from ctrace.inspector.facts.kernels import Launch, OutputCode
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.facts.user_kernels import UserKernel
from ctrace.inspector.findings.kernels.at_line import KernelAtLine, Wanted, source_lines
from ctrace.inspector.findings.kernels.built_view import (
    Resources,
    StageCode,
    codes,
    resources,
    stages_of,
    times,
)
from ctrace.inspector.findings.kernels.kernel_view import (
    GraphNodes,
    KernelOfPart,
    PartKernels,
    Work,
    graph_nodes,
    work_of_launch,
)
from ctrace.inspector.findings.kernels.user_kernels_view import notes
from ctrace.reports import format as fmt
from ctrace.reports.dump.dumped import Dumped
from ctrace.reports.escape import Document
from ctrace.reports.json.explain_json import kernel_data, place_data
from ctrace.reports.json.printer import plain
from ctrace.reports.json.target_json import WORK, basis, bounds_data, emitted, render_of_run, unknown_data


def built_data(session: Session, graph: str | None = None) -> dict[str, Any]:
    """Return the GPU, every compiled configuration of each kernel, and the timed launches."""
    return {
        "gpu": plain(session.gpu, ""),
        "built": [resources_data(each) for each in resources(session, graph, all_of_them=True)],
        "refused": [plain(each, "") for each in session.refused if graph in (None, each.graph)],
        "timed": plain(times(session, graph), ""),
    }


def ir_data(session: Session, stage: str, kernel: str | None = None, graph: str | None = None) -> list[dict[str, Any]]:
    """Return the code of a stage, for one kernel or for all.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    sources = {(each.graph, each.stage, each.name): each.source for each in session.kernels}
    found = ((each, each.built) for each in codes(session, stage, kernel, graph))
    return [_code(each, sources.get((of.graph, of.stage, of.kernel), "")) for each, of in found]


def resources_data(each: Resources) -> dict[str, Any]:
    """Return the resources of one configuration of a kernel."""
    built = each.built
    data = {
        "graph": built.graph,
        "stage": str(built.stage),
        "kernel": built.kernel,
        "hash": built.hash,
        "chosen": built.chosen,
        "open": built.open,
        "warps": built.warps,
        "stages": built.stages,
        "blocks": dict(built.blocks),
        "registers": built.registers,
        "spills": built.spills,
        "shared": built.shared,
        "register_limit": built.register_limit,
        "occupancy": plain(each.occupancy, ""),
        "seconds": dict(built.seconds) or None,
        "cached": built.cached,
        "ir": list(stages_of(built)),
    }
    return basis(Basis.EMITTED, data, measured=(Basis.MEASURED, ("seconds",)))


def _code(each: StageCode, source: str) -> dict[str, Any]:
    """Return the code, and pairs of one of its lines and the line of the kernel's source behind it, both from 1."""
    of = each.built
    lines = source_lines(each.stage, each.text or "", source)
    data = {
        "graph": of.graph,
        "stage": str(of.stage),
        "kernel": of.kernel,
        "hash": of.hash,
        "ir": each.stage,
        "text": each.text,
        "source_lines": [list(pair) for pair in lines],
    }
    return basis(Basis.EMITTED, data)


def user_kernels_data(session: Session) -> list[dict[str, Any]]:
    """Return each call of a user-written kernel; unknown values are null."""
    return [_kernel(each, session.environment.cwd) for each in session.user_kernels]


def _kernel(each: UserKernel, cwd: str) -> dict[str, Any]:
    written = None if each.assumed is None else list(each.written)
    assumed = None if each.assumed is None else bool(each.assumed)
    epilogue = None if each.epilogue is None else str(each.epilogue)
    return {
        "graph": each.graph,
        "stage": str(each.stage),
        "operation": each.operation,
        "kernel": each.kernel,
        "file": fmt.relative(each.file, cwd),
        "line": each.line,
        "name": each.name or None,
        "lines": list(each.lines),
        "device": each.device,
        "decorators": list(each.decorators),
        "parameters": plain(each.parameters, cwd),
        "written": written,
        "assumed": assumed,
        "assumed_because": each.assumed or None,
        "grids": [list(grid) for grid in each.grids],
        "configs": [dict(config) for config in each.configs],
        "key": list(each.key),
        "heuristics": list(each.heuristics),
        "restored": list(each.restored),
        "zeroed": list(each.zeroed),
        "flops": each.flops,
        "epilogue": epilogue,
        "op": plain(each.op, cwd),
        "notes": [{"text": note.text, "fix": note.todo or None} for note in notes(each)],
    }


def render_kernels_json(session: Session, found: Iterable[PartKernels], *, source: bool = False) -> Document:
    """Write the kernels of each graph part, most bytes first; with `source`, also their code."""
    every = tuple(found)
    parts = [_part(part, session, source=source) for part in every]
    more = {"bounds": bounds_data(session, every), **unknown_data(session)}
    return render_of_run(
        session, {"parts": parts, "user_kernels": user_kernels_data(session), **built_data(session), **more}
    )


def render_line_json(
    session: Session, request: Wanted, found: Sequence[tuple[PartKernels, tuple[KernelAtLine, ...]]], why: str
) -> Document:
    """Write the kernels that come from some lines; if there are none, write why."""
    cwd = session.environment.cwd
    kernels = [_of_line(each, cwd) for _, of_lines in found for each in of_lines]
    return render_of_run(session, {"line": request.text, "kernels": kernels, "why_none": why or None})


def render_wrappers_json(session: Session, found: Iterable[tuple[OutputCode, str]]) -> Document:
    """Write, for each graph part, the function that calls its kernels."""
    wrappers = [emitted({"graph": code.graph, "stage": str(code.stage), "wrapper": text}) for code, text in found]
    return render_of_run(session, {"wrappers": wrappers})


def render_ir_json(session: Session, stage: str, kernel: str | None, graph: str | None) -> Document:
    """Write the code of one compilation stage of Triton.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    return render_of_run(session, {"code": ir_data(session, stage, kernel, graph)})


def render_dump_json(session: Session, dumped: Dumped) -> Document:
    """Write the files in a dump, and what the dump left out."""
    left = [{"name": name, "why": why} for name, why in dumped.left_out]
    return render_of_run(
        session, {"folder": str(dumped.folder), "files": [str(file) for file in dumped.files], "left_out": left}
    )


def _part(part: PartKernels, session: Session, *, source: bool) -> dict[str, Any]:
    unknown = sum(row.work.bytes is None for row in part.rows)
    return {
        "graph": part.graph,
        "stage": str(part.stage),
        "known": {
            "basis": str(Basis.COMPUTED),
            **_work(part.known),
            "intensity": part.known.intensity if part.is_known else None,
            "bytes_not_known_of": unknown,
        },
        "kernels": [_row(row, session, source=source) for row in part.rows],
    }


def _row(row: KernelOfPart, session: Session, *, source: bool) -> dict[str, Any]:
    cwd = session.environment.cwd
    data = {
        **kernel_data(row, cwd),
        "intensity": row.work.intensity,
        "share": row.share,
        "outputs": plain(row.outputs, cwd),
        "buffers": plain(row.buffers, cwd),
        "fused_from": [_node(node, cwd) for node in row.nodes],
        "launches": [_launch(launch, cwd) for launch in row.kernel.launches],
    }
    data = emitted(data, *WORK)
    if not source:
        return data
    nodes = graph_nodes(session, row.kernel)
    return {**data, **_source(row, cwd), "graph_nodes": None if nodes is None else _graph_nodes(nodes)}


def _source(row: KernelOfPart, cwd: str) -> dict[str, Any]:
    statements = [
        {"line": each.line, "lines": [place_data(place, cwd) for place in each.lines]} for each in row.kernel.statements
    ]
    return {"source": row.kernel.source or None, "statements": statements}


def _graph_nodes(nodes: GraphNodes) -> dict[str, Any]:
    return {"stage": nodes.stage, "names": list(nodes.names), "exact": nodes.is_exact}


def _work(work: Work) -> dict[str, Any]:
    return {"read": work.read, "written": work.written, "flops": work.flops, "intensity": work.intensity}


def _node(node: Node, cwd: str) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": str(node.kind),
        "loops": node.loops,
        "ops": list(node.ops),
        "lines": [place_data(place, cwd) for place in node.lines],
    }


def _launch(launch: Launch, cwd: str) -> dict[str, Any]:
    arguments = [
        {"name": each.name, "dtype": each.dtype, "shape": list(each.shape), "stride": list(each.stride)}
        if each.tensor
        else {"name": each.name, "value": each.value}
        for each in launch.arguments or ()
    ]
    data = {
        "ops": list(launch.ops),
        "lines": [place_data(place, cwd) for place in launch.lines],
        **_work(work_of_launch(launch)),
        "call": launch.call or None,
        "arguments": None if launch.arguments is None else arguments,
    }
    return emitted(data, *WORK)


def _of_line(each: KernelAtLine, cwd: str) -> dict[str, Any]:
    return {
        **kernel_data(each.row, cwd),
        "calls_of_it": len(each.launches) or None,
        "work_of_it": {"basis": str(Basis.COMPUTED), **_work(each.work)},
        "nodes_of_it": [_node(node, cwd) for node in each.nodes],
        "other_lines": [place_data(place, cwd) for place in each.others],
    }
