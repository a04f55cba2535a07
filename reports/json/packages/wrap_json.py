"""Write an operator for a user's kernel as JSON."""

from ctrace.inspector.features.workshop.triton_ops.triton_op_model import WrapResult
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_wrap_json(result: WrapResult) -> Document:
    """Return the operator, the limits of torch that concern it, and its checks; null means not checked."""
    made = result.wrapped
    return json_document(
        {
            "schema": SCHEMA,
            "operator": made.name,
            "kernel": made.kernel,
            "file": made.file,
            "line": made.line,
            "mutates": list(made.mutates),
            "kernel_writes": list(made.written),
            "kernel_writes_from": made.written_source,
            "fake": made.fake,
            "cpu": made.cpu,
            "flops_per_element": made.flops,
            "calls": {"before": made.calls[0], "after": made.calls[1]},
            "limits": [{"what": each.what, "applies": each.applies} for each in result.limits],
            "checks": [
                {"what": each.what, "passed": each.passed, "detail": each.detail or None} for each in result.checks
            ],
            "notes": list(made.notes),
            "source": made.source,
        }
    )
