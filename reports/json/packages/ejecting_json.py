"""Write the result of `ctrace kernels eject` as JSON."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ctrace.inspector.facts.kernels import Kernel
from ctrace.inspector.facts.session import Session
from ctrace.reports.ejecting.eject_writing import Written
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA
from ctrace.reports.json.target_json import target_data


class Ejected(Struct, frozen=True):
    """A kernel, and its package or why there is none."""

    kernel: Kernel
    written: Written | None
    why: str = ""
    instead: str = ""


def render_ejected_json(session: Session, found: Iterable[Ejected]) -> Document:
    """Return the packages and refusals as JSON."""
    return json_document(
        {
            "schema": SCHEMA,
            "target_gpu": target_data(session),
            "kernels": [_kernel(each) for each in found],
            "problems": [problem.what for problem in session.problems],
        }
    )


def _kernel(each: Ejected) -> dict[str, Any]:
    written = each.written
    op = written.package.name if written else None
    package = str(written.folder) if written else None
    files = list(written.files) if written else []
    return {
        "kernel": each.kernel.name,
        "graph": each.kernel.graph,
        "stage": str(each.kernel.stage),
        "lines": list(each.kernel.lines),
        "op": op,
        "package": package,
        "files": files,
        "refused": each.why or None,
        "instead": each.instead or None,
    }
