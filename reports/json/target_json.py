"""Add to JSON reports what a run with `--target` found, and the basis of each figure.

An object with figures has a `basis`, such as `emitted`; `bases` lists the fields with another basis.
"""

from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_facts import Basis
from ctrace.inspector.findings.target_view import target_device
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA, plain


def render_of_run(session: Session, data: dict[str, Any]) -> Document:
    """Write what a view of a run found, between the verdict and the problems; indented, with a final newline."""
    head = {"schema": SCHEMA, "verdict": str(session.verdict), "target_gpu": plain(target_device(session), "")}
    return json_document({**head, **data, "problems": plain(session.problems, "")})


def basis(of: Basis, data: dict[str, Any], **others: tuple[Basis, tuple[str, ...]]) -> dict[str, Any]:
    """Add the basis of the figures, and the basis of each field in `others`, which differs."""
    bases = {name: str(other) for other, names in others.values() for name in names if name in data}
    figures = {name: value for name, value in data.items() if name not in ("basis", "bases")}
    return {"basis": str(of), **({"bases": bases} if bases else {}), **figures}


def emitted(data: dict[str, Any], *computed: str) -> dict[str, Any]:
    """Mark data as emitted, and the fields in `computed` as computed."""
    return basis(Basis.EMITTED, data, computed=(Basis.COMPUTED, computed))
