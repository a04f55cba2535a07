"""Write compile time in the trace event format, which Perfetto and chrome://tracing open.

A step is a pair of events: it begins (`B`) and ends (`E`). Times are microseconds from the first step of the log.
"""

from collections.abc import Iterator
from typing import Any

from ctrace.inspector.compile_time.view import OTHER, phase_of
from ctrace.inspector.model.compile_time import Lane, Span
from ctrace.inspector.model.session import Session
from ctrace.reports.escape import Document, json_document

_PROCESS = 1
_MICRO = 1e6


def render_perfetto(session: Session) -> Document:
    """Write the steps of all threads; without steps in the log, the trace has none either."""
    name = session.target.path or session.target.name or "torch.compile"
    lanes = list(enumerate(session.compile_time.lanes, 1))
    names = [_named("process_name", 0, f"torch.compile: {name}"), *(_thread(number, lane) for number, lane in lanes)]
    steps = [event for number, lane in lanes for span in lane.spans for event in _events(span, number, OTHER)]
    steps.sort(key=_time)  # stable: of events at one time, those of a thread stay in their order
    data = {
        "traceEvents": [*names, *steps],
        "displayTimeUnit": "ms",
        "otherData": {"torch": session.environment.torch, "ctrace": session.environment.ctrace},
    }
    return json_document(data)


def _time(event: dict[str, Any]) -> float:
    return float(event["ts"])


def _thread(number: int, lane: Lane) -> dict[str, Any]:
    return _named("thread_name", number, f"{'in parallel' if lane.is_parallel else 'compiling'}: {lane.thread}")


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "ts": 0, "pid": _PROCESS, "tid": thread, "args": {"name": name}}


def _events(span: Span, thread: int, around: str) -> Iterator[dict[str, Any]]:
    phase = phase_of(span.name, around)
    shared = {"name": span.name, "cat": phase, "pid": _PROCESS, "tid": thread}
    yield {"ph": "B", "ts": span.begin * _MICRO, **shared, "args": {"graph": span.graph, "cut": span.is_cut}}
    for child in span.children:
        yield from _events(child, thread, phase)
    yield {"ph": "E", "ts": span.end * _MICRO, **shared}
