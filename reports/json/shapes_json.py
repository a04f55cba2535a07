"""Static and dynamic sizes as JSON, for programs. Names are fixed: new ones may come, old ones never change."""

from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.shape_facts import SizeCondition, Unbacked
from ctrace.inspector.findings.shapes.dynamic_marks import marks
from ctrace.inspector.findings.shapes.shape_view import FunctionShapes, Sized, SizedTensor, by_function, violations, why
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_shapes_json(session: Session, function: str | None = None) -> Document:
    """Write all sizes, function by function, indented, with a final newline.

    Raises:
        TargetError: there is no such function.
    """
    cwd = session.environment.cwd
    found = by_function(session, function, everything=True)
    offered = marks(found, session.environment.torch)
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "functions": [_function(each, cwd) for each in found],
        "violations": list(violations(session)),
        "marks": [{"line": mark.line or None, "note": mark.note} for mark in offered],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def _function(each: FunctionShapes, cwd: str) -> dict[str, Any]:
    shaped = each.latest
    return {
        "function": shaped.function,
        "file": fmt.relative(shaped.file, cwd),
        "line": shaped.line,
        "compilation": shaped.compilation,
        "compilations": each.graphs,
        "complete": shaped.complete,
        "failed": shaped.fail_type,
        "tensors": [_tensor(sized, cwd) for sized in each.tensors],
        "unbacked": [_unbacked(one, cwd) for one in shaped.unbacked],
        "needed": [_condition(one, cwd) for one in shaped.needed],
        "earlier": [
            {"compilation": before.compilation, "differences": list(differences)}
            for before, differences in each.earlier
        ],
    }


def _tensor(each: SizedTensor, cwd: str) -> dict[str, Any]:
    tensor = each.tensor
    return {
        "name": tensor.name,
        "source": tensor.source,
        "dtype": tensor.dtype,
        "role": tensor.role,
        "dims": [_dim(sized, cwd) for sized in each.dims],
    }


def _dim(sized: Sized, cwd: str) -> dict[str, Any]:
    dim = sized.dim
    return {
        "index": dim.index,
        "name": sized.name,
        "kind": str(dim.kind),
        "policy": str(dim.policy),
        "size": dim.size,
        "stride": dim.stride,
        "low": dim.low,
        "high": dim.high,
        "equals": dim.became or None,
        "same_as": list(dim.same_as),
        "took": list(sized.took),
        "one_graph_each": sized.one_graph_each,
        "why": why(sized) or None,
        "fixed": dim.fixed and _condition(dim.fixed, cwd),
        "conditions": [_condition(each, cwd) for each in dim.conditions],
    }


def _condition(each: SizeCondition, cwd: str) -> dict[str, Any]:
    return {
        "condition": each.text,
        "value": each.value,
        "kind": each.kind,
        "file": each.file and fmt.relative(each.file, cwd),
        "line": each.line,
        "source": each.source,
        "why": each.why,
    }


def _unbacked(each: Unbacked, cwd: str) -> dict[str, Any]:
    return {
        "symbol": each.symbol,
        "low": each.low,
        "high": each.high,
        "file": each.file and fmt.relative(each.file, cwd),
        "line": each.line,
        "source": each.source,
    }
