"""Compiled kernels of `--build` or `--target` as data for JSON reports; times in seconds, memory in bytes."""

from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.kernels.built_view import (
    Resources,
    StageCode,
    codes,
    resources,
    stages_of,
    times,
)
from ctrace.inspector.findings.kernels.kernel_code import source_lines
from ctrace.reports.json.printer import plain
from ctrace.reports.json.target_json import basis


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
