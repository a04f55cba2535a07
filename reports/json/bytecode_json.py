"""Bytecode before and after as JSON, for programs."""

from collections.abc import Iterable
from typing import Any, Literal

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_scene import BytecodePiece
from ctrace.inspector.features.bytecode.bytecode_view import (
    CompiledFunction,
    DiffRow,
    Explained,
    FunctionCode,
    explained,
    function_codes,
    instruction,
    line_of,
    outline,
    rows,
)
from ctrace.inspector.features.bytecode.reconstruct import FunctionSource, NotReconstructed, reconstruct
from ctrace.reports import format as fmt
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_bytecode_json(
    session: Session, chosen: Iterable[CompiledFunction], line: int | None = None, *, source: bool = False
) -> Document:
    """Write all functions, and the diffs of some compilations; with `source`, also the new code as Python."""
    cwd = session.environment.cwd
    data = {
        "schema": SCHEMA,
        "verdict": str(session.verdict),
        "functions": [_function(each, cwd) for each in function_codes(session)],
        "compilations": [
            {**_compilation(session, each, line), **(_source(session, each) if source else {})} for each in chosen
        ],
        "problems": [{"what": problem.what, "line": problem.line} for problem in session.problems],
    }
    return json_document(data)


def _function(each: FunctionCode, cwd: str) -> dict[str, Any]:
    return {
        "function": each.name,
        "file": fmt.relative(each.file, cwd),
        "line": each.line,
        "resumes_at": each.resumes_at,
        "compilations": [
            {"compilation": one.compilation.id, "before": one.before, "after": one.after} for one in each.compiled
        ],
        "resume_functions": [_function(below, cwd) for below in each.resumes],
    }


def _compilation(session: Session, compiled: CompiledFunction, line: int | None) -> dict[str, Any]:
    each = explained(session, compiled)
    at = compiled.compilation
    shown = [row for row in rows(each) if line is None or line_of(each, row) == line]
    return {
        "compilation": at.id,
        "function": at.function,
        "file": fmt.relative(at.file, session.environment.cwd),
        "line": at.line,
        "resumes_at": at.resumes_at,
        "python": each.codes.before.python,
        "before": compiled.before,
        "after": compiled.after,
        "outline": list(outline(session, each)),
        "pieces": list(map(_piece, each.pieces)),
        "old_pieces": list(map(_piece, each.old)),
        "diff": [_row(each, row) for row in shown],
    }


def _source(session: Session, compiled: CompiledFunction) -> dict[str, Any]:
    match reconstruct(session.codes[compiled.compilation.id].after):
        case NotReconstructed(why):
            return {"source": None, "source_refused": why}
        case FunctionSource(text=text, how_checked=how):
            return {"source": text, "source_checked": how}


def _piece(piece: BytecodePiece) -> dict[str, Any]:
    return {
        "kind": str(piece.kind),
        "text": piece.text,
        "first": piece.first,
        "last": piece.last,
        "link": list(piece.link),
    }


def _change(row: DiffRow) -> Literal["same", "added", "removed"]:
    if row.before is None:
        return "added"
    if row.after is None:
        return "removed"
    return "same"


def _row(each: Explained, row: DiffRow) -> dict[str, Any]:
    shown = instruction(each, row)
    return {
        "change": _change(row),
        "before": row.before,
        "after": row.after,
        "line": line_of(each, row),
        "offset": shown.offset,
        "opname": shown.opname,
        "arg": shown.arg,
        "argument": shown.text,
        "target": shown.target,
    }
