"""Collect the documents that a page shows: what the commands print with `--json`, and the source files.

A part that cannot be written, such as the instructions of a damaged binary, becomes a note, which the page shows.

Put data into a page such that nothing in it is markup: escaped text and JSON, and compressed text in base64.
"""

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.diagnosis.recompiles_document import recompiles_document
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.built import IR_STAGES
from ctrace.inspector.facts.compile_time import Lane, Span
from ctrace.inspector.facts.memory_facts import StepMemoryDocument
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.compile_time_fold import lanes_of
from ctrace.inspector.findings.compile_time_view import OTHER, compile_document, phase_of
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged, compiled
from ctrace.inspector.findings.graphs.graphs_document import (
    graph_stage_document,
    graphs_document,
    stage_diff_document,
)
from ctrace.inspector.findings.guard_view import Head, guards_of, heads
from ctrace.inspector.findings.kernels.built_view import stages_of
from ctrace.inspector.findings.kernels.kernels_document import kernels_document, stage_document
from ctrace.inspector.findings.shapes_document import shapes_document
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, json_text, plain, without_commands
from ctrace.reports.json.printer import render

_MARKUP = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
# zlib's default: higher levels take longer for little.
_LEVEL = 6


def markup(text: str) -> str:
    """Escape text for HTML; hidden letters become visible, and commands to a CI system are broken."""
    return without_commands(html.escape(plain(text)), "&#58;", "&#35;")


def json_for_script(data: object) -> str:
    """Write JSON for a data block, without a letter that could end the block or begin markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).translate(_MARKUP)
    return without_commands(text, r"\u003a", r"\u0023")


def packed(text: str) -> str:
    """Compress text with zlib, which a browser's `DecompressionStream` calls `deflate`; return it in base64."""
    # A log may have half of a surrogate pair, which UTF-8 cannot write.
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), _LEVEL)).decode("ascii")


def source_hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


class PackedDocument(Struct, frozen=True):
    """One document, compressed: the stages of a large log have more text than fits into memory."""

    name: str
    """Such as `explain`, `stage 0/0 post_grad` or `ir 0/0 ptx`."""
    characters: int
    """How many the text has."""
    packed: str
    """The text as the page contains it."""


def document(name: str, text: str) -> PackedDocument:
    """Compress a document of JSON; its indentation goes, since a browser would unpack it for nothing."""
    compact = _compact(text)
    return PackedDocument(name, len(compact), packed(compact))


def _compact(text: str) -> str:
    try:
        return msgspec.json.format(str(text), indent=-1)
    except (UnicodeEncodeError, msgspec.DecodeError):  # half of a surrogate pair, in the text of a log
        return json.dumps(json.loads(text), separators=(",", ":"))


class LeftOutDocument(Struct, frozen=True):
    """A document that cannot be written, and why."""

    name: str
    why: str
    todo: str


def documents(session: Session, *, sass: bool = False) -> Iterator[PackedDocument | LeftOutDocument]:
    """Yield all documents, those of the first screen first; disassembling the binaries takes longer than all others."""
    # Functions, so that one document at a time is in memory as text.
    writers: list[tuple[str, Callable[[], str]]] = [
        ("explain", lambda: render(explain_document(session))),
        ("breaks", lambda: render(breaks_document(session))),
        ("recompiles", lambda: render(recompiles_document(session))),
        ("sources", lambda: _sources(session)),
        ("shapes", lambda: render(shapes_document(session))),
        ("graphs", lambda: render(graphs_document(session))),
        ("kernels", lambda: render(kernels_document(session, has_code=True))),
        ("fusion", lambda: render(fusion_document(session))),
        ("compile", lambda: render(compile_document(session))),
        ("steps", lambda: render_steps_json(session)),
    ]
    yield from (_written(name, write) for name, write in writers)
    yield from _memory(session)
    for each in compiled(session):
        yield from _stages(session, each)
    yield from _guards(session)
    yield from _code(session, sass=sass)


def _written(name: str, write: Callable[[], str]) -> PackedDocument | LeftOutDocument:
    try:
        return document(name, write())
    except CtraceError as error:
        return LeftOutDocument(name, error.what, error.todo)


def _memory(session: Session) -> Iterator[PackedDocument | LeftOutDocument]:
    """Yield what `ctrace memory` prints, if the run followed its memory."""
    found = session.memory
    if found is None:
        return
    if found.why_not:
        yield LeftOutDocument("memory", found.why_not, "see it with ctrace memory")
        return
    step = StepMemoryDocument(session.target.path or "", found, session.environment.cwd)
    yield _written("memory", lambda: render(step))


def _sources(session: Session) -> str:
    cwd = session.environment.cwd
    return json.dumps({"files": {fmt.relative(file, cwd): text for file, text in session.listings.items()}})


_MOST_NODES = 25_000
"""A browser reads and draws so many in 0.2 s; with more, a click would freeze the page."""


def _stages(session: Session, each: CompiledGraph) -> Iterator[PackedDocument | LeftOutDocument]:
    """Yield each stage of a graph, and its changes to the stage before."""
    for staged in each.stages:
        name = f"stage {each.id} {staged.label}"
        if _is_large(staged):
            why = f"it has more than {_MOST_NODES:,} nodes, and would freeze the page"
            yield LeftOutDocument(name, why, f"see it with ctrace graphs --stage {staged.label}")
            continue
        yield _written(name, partial(_stage, session, each.id, staged.label))
        before = _stage_before(each, staged)
        if before is not None and not _is_large(before):
            stages = f"{before.label}..{staged.label}"
            yield _written(f"diff {each.id} {stages}", partial(_diff, session, stages, each.id))


def _is_large(staged: Staged) -> bool:
    return staged.graph is not None and len(staged.graph.nodes) > _MOST_NODES


def _stage_before(each: CompiledGraph, staged: Staged) -> Staged | None:
    """Return the last stage before another that contains its part of the graph, if both can be read."""
    earlier = each.stages[: each.stages.index(staged)]
    found = next((one for one in reversed(earlier) if one.part in (None, staged.part) or staged.part is None), None)
    if found is not None and found.graph is not None and staged.graph is not None:
        return found
    return None


def _stage(session: Session, graph: str, stage: str) -> str:
    return render(graph_stage_document(session, graph, stage))


def _diff(session: Session, stages: str, graph: str) -> str:
    return render(stage_diff_document(session, stages, graph))


def _guards(session: Session) -> Iterator[PackedDocument | LeftOutDocument]:
    for head in heads(session):
        name = f"guards {head.compilation.id}"
        yield _written(name, partial(_guards_of, session, head))


def _guards_of(session: Session, head: Head) -> str:
    return render(guards_of(session, (head,)))


def _code(session: Session, *, sass: bool) -> Iterator[PackedDocument | LeftOutDocument]:
    """Yield what Triton compiled, one document for each graph and stage of the code."""
    stages = ((built.graph, stage) for built in session.built for stage in stages_of(built))
    wanted = dict.fromkeys(each for each in stages if sass or each[1] != IR_STAGES[-1])
    for graph, stage in wanted:
        name = f"ir {graph} {stage}"
        yield _written(name, partial(_stage_code, session, stage, graph))


def _stage_code(session: Session, stage: str, graph: str) -> str:
    return render(stage_document(session, stage, graph=graph))


def render_steps_json(session: Session) -> SafeText:
    """Write the steps of every thread, nested; a log without times has no thread."""
    return json_text({"threads": [_lane(each) for each in lanes_of(session.compile_time) if each.spans]})


def _lane(lane: Lane) -> dict[str, Any]:
    steps = [_step(each, OTHER) for each in lane.spans]
    return {"thread": lane.thread, "parallel": lane.is_parallel, "steps": steps}


def _step(span: Span, around: str) -> dict[str, Any]:
    phase = phase_of(span.name, around)
    return {
        "name": span.name,
        "phase": phase,
        "graph": span.graph,
        "begin": span.begin,
        "seconds": span.seconds,
        "cut": span.is_cut,
        "steps": [_step(each, phase) for each in span.children],
    }
