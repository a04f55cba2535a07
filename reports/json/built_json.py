"""Compiled kernels of `--build` or `--target` as data for JSON reports; times in seconds, memory in bytes."""

from typing import Any

from ctrace.inspector.facts.built import Gpu, KernelRefusal
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.kernels.built_view import (
    LaunchTimes,
    Resources,
    StageCode,
    codes,
    resources,
    stages_of,
    times,
)
from ctrace.inspector.findings.kernels.code_lines import source_lines
from ctrace.inspector.findings.kernels.occupancy import Occupancy
from ctrace.reports.json.target_json import basis, gpu_facts

_BOUNDS = ("memory_bound", "arithmetic_bound", "bound_set_by")


def built_data(session: Session, graph: str | None = None) -> dict[str, Any]:
    """Return the GPU, every compiled configuration of each kernel, and the timed launches."""
    return {
        "gpu": None if session.gpu is None else _gpu(session.gpu),
        "built": [resources_data(each) for each in resources(session, graph, all_of_them=True)],
        "refused": [_refused(each) for each in session.refused if graph in (None, each.graph)],
        "timed": [_time(each) for each in times(session, graph)],
    }


def ir_data(session: Session, stage: str, kernel: str | None = None, graph: str | None = None) -> list[dict[str, Any]]:
    """Return the code of a stage, for one kernel or for all.

    Raises:
        TargetError: there is no such stage or kernel, or nothing was built.
    """
    sources = {(each.graph, each.stage, each.name): each.source for each in session.kernels}
    found = ((each, each.built) for each in codes(session, stage, kernel, graph))
    return [_code(each, sources.get((of.graph, of.stage, of.kernel), "")) for each, of in found]


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "target": gpu.target or None,
        **gpu_facts(gpu),
        "copied": gpu.copied,
        "empty": gpu.empty,
        "tf32": list(gpu.tf32),
    }


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
        "occupancy": None if each.occupancy is None else _occupancy(each.occupancy),
        "seconds": dict(built.seconds) or None,
        "cached": built.cached,
        "ir": list(stages_of(built)),
    }
    return basis(Basis.EMITTED, data, measured=(Basis.MEASURED, ("seconds",)))


def _refused(each: KernelRefusal) -> dict[str, Any]:
    return {
        "graph": each.graph,
        "stage": str(each.stage),
        "kernel": each.kernel,
        "configuration": each.configuration,
        "reason": each.reason,
    }


def _occupancy(occupancy: Occupancy) -> dict[str, Any]:
    limits = list(map(str, occupancy.limits))
    return basis(
        Basis.COMPUTED,
        {"blocks": occupancy.blocks, "warps": occupancy.warps, "share": occupancy.share, "limited_by": limits},
    )


def _time(each: LaunchTimes) -> dict[str, Any]:
    timed = each.timed
    data = {
        "graph": timed.graph,
        "stage": str(timed.stage),
        "kernel": timed.kernel,
        "launch": timed.launch,
        "calls": each.calls,
        "seconds": timed.seconds,
        "launches": timed.launches,
        "share": each.share,
        "memory_bound": each.bound.memory,
        "arithmetic_bound": each.bound.arithmetic,
        "bound_set_by": each.bound.sets or None,
        "reached": each.reached,
        "not_measured": timed.why or None,
    }
    return basis(Basis.MEASURED, data, computed=(Basis.COMPUTED, _BOUNDS))


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
