"""A comparison of one program's code for several GPUs, as JSON."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.side_by_side import ComparedKernel, ComparedPart, One, side_by_side
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA, plain
from ctrace.reports.json.target_json import basis


def render_side_by_side_json(
    targets: Mapping[str, Session], failed: Mapping[str, str], each: Callable[[Session], Document]
) -> Document:
    """Write a command's report for every GPU, each as `each` writes it, and a comparison of the GPUs' kernels."""
    data = {
        "schema": SCHEMA,
        "targets": {name: json.loads(each(session)) for name, session in targets.items()},
        "failed": dict(failed),
        "compared": [_part(part) for part in side_by_side(targets)],
    }
    return json_document(data)


def _part(part: ComparedPart) -> dict[str, Any]:
    return {
        "graph": part.graph,
        "stage": str(part.stage),
        "least": basis(Basis.COMPUTED, {"seconds": dict(part.least)}),
        "kernels": [_kernel(each) for each in part.kernels],
    }


def _kernel(each: ComparedKernel) -> dict[str, Any]:
    return {"name": each.name, "code": str(each.code), "on": {name: _one(one) for name, one in each.on.items()}}


def _one(one: One) -> dict[str, Any]:
    data = {
        "name": one.kernel.name,
        "calls": one.kernel.calls,
        "least_seconds": one.least,
        "configurations": plain(one.resources, ""),
    }
    return basis(Basis.EMITTED, data, computed=(Basis.COMPUTED, ("least_seconds",)))
