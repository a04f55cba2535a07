"""Add to JSON reports what a run with `--target` found, and the basis of each figure.

An object with figures has a `basis`, such as `emitted`; `bases` lists the fields with another basis.
"""

from typing import Any

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.kernels.bounds import bounds
from ctrace.inspector.findings.kernels.kernel_view import PartKernels
from ctrace.inspector.findings.target_view import left_open, not_emitted, questions, target_of
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA, plain

WORK = ("read", "written", "flops", "intensity", "share")
"""The fields that have the bytes and FLOPs of a kernel."""


def render_of_run(session: Session, data: dict[str, Any]) -> Document:
    """Write what a view of a run found, between the verdict and the problems; indented, with a final newline."""
    head = {"schema": SCHEMA, "verdict": str(session.verdict), "target_gpu": target_data(session)}
    return json_document({**head, **data, "problems": plain(session.problems, "")})


def basis(of: Basis, data: dict[str, Any], **others: tuple[Basis, tuple[str, ...]]) -> dict[str, Any]:
    """Add the basis of the figures, and the basis of each field in `others`, which differs."""
    bases = {name: str(other) for other, names in others.values() for name in names if name in data}
    figures = {name: value for name, value in data.items() if name not in ("basis", "bases")}
    return {"basis": str(of), **({"bases": bases} if bases else {}), **figures}


def emitted(data: dict[str, Any], *computed: str) -> dict[str, Any]:
    """Mark data as emitted, and the fields in `computed` as computed."""
    return basis(Basis.EMITTED, data, computed=(Basis.COMPUTED, computed))


def target_data(session: Session) -> dict[str, Any] | None:
    """Return the GPU for which code was emitted; None if the code is for the program's own device."""
    gpu = target_of(session)
    if gpu is None:
        return None
    return {"name": gpu.target, "title": gpu.name, **gpu_facts(gpu)}


def gpu_facts(gpu: Gpu) -> dict[str, Any]:
    """Return figures of a GPU: memory in bytes, rates per second."""
    return {
        "capability": ".".join(map(str, gpu.capability)),
        "processors": gpu.processors,
        "clock": gpu.clock,
        "bandwidth": gpu.bandwidth,
        "l2": gpu.l2,
        "rates": dict(gpu.rates),
        "vector_rates": dict(gpu.vector_rates),
        "sources": dict(gpu.sources),
    }


def unknown_data(session: Session) -> dict[str, Any]:
    """Return the choices that need the device, the program's queries about the device, and the graphs without code."""
    cwd = session.environment.cwd
    return {
        "undecided": [plain(each, cwd) for kind in left_open(session) for each in kind.choices],
        "asked": plain(questions(session), cwd),
        "not_emitted": [graph.id for graph in not_emitted(session)],
    }


def bounds_data(session: Session, found: tuple[PartKernels, ...]) -> list[dict[str, Any]]:
    """Return the lower bound on each kernel's and graph part's run time on the target GPU, in seconds."""
    return plain(bounds(session, found), "") if target_of(session) else []
