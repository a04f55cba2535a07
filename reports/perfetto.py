"""Write compile time in the trace event format, which Perfetto and chrome://tracing open.

A step is a pair of events: it begins (`B`) and ends (`E`). A finding is an instant (`i`). Times are microseconds since
the first step of the log, or of all logs of a job.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ctrace.inspector.facts.compile_time import Lane, Span
from ctrace.inspector.facts.memory_facts import StepMemoryDocument
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.ranks_of_job import Job, Steps
from ctrace.inspector.findings.compile_time_fold import lanes_of
from ctrace.inspector.findings.compile_time_view import OTHER, phase_of
from ctrace.inspector.version import __version__
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, json_text

# Perfetto groups threads by process; a run is one, and any number will do.
_PROCESS = 1
# The trace event format counts in microseconds.
_MICRO = 1e6
# Chosen: Perfetto shows a name in one line of its details.
_LONGEST = 400
_MOMENT = 10.0
"""The microseconds between two moments of memory: a computed timeline has an order and no times."""


def render_perfetto(session: Session) -> SafeText:
    """Write the steps of all threads; without steps in the log, the trace has none either."""
    name = session.target.path or session.target.name or "torch.compile"
    lanes = list(enumerate(lanes_of(session.compile_time), 1))
    names = [_named("process_name", 0, f"torch.compile: {name}"), *(_thread(number, lane) for number, lane in lanes)]
    steps = _steps(lanes)
    steps += _findings(session)
    steps.sort(key=_time)  # stable: of events at one time, those of a thread stay in their order
    data = {
        "traceEvents": [*names, *steps],
        "displayTimeUnit": "ms",
        "otherData": {"torch": session.environment.torch, "ctrace": session.environment.ctrace},
    }
    return json_text(data)


def _findings(session: Session) -> Iterator[dict[str, Any]]:
    """Yield graph breaks and recompilations, at the begin of the compilations that have them."""
    lanes = lanes_of(session.compile_time)
    # Backwards, so that of all steps of a graph the first one stays.
    starts = {span.graph: span.begin for lane in reversed(lanes) for span in reversed(lane.spans)}
    for found in session.breaks:
        for graph in found.compilations[:1]:
            if graph in starts:
                yield _instant(starts[graph], f"graph break at {found.file}:{found.line}: {found.reason}", "break")
    for one in session.recompiles:
        if one.compilation in starts:
            yield _instant(starts[one.compilation], f"recompilation of {one.function}", "recompile")


def _instant(at: float, name: str, kind: str, process: int = _PROCESS) -> dict[str, Any]:
    """Return a marker on all threads of a process."""
    shared = {"name": name[:_LONGEST], "cat": f"finding: {kind}", "pid": process, "tid": 0}
    return {"ph": "i", "ts": max(at, 0.0) * _MICRO, "s": "p", **shared}


def _steps(lanes: Iterable[tuple[int, Lane]]) -> list[dict[str, Any]]:
    """Return the events of the steps of each thread, thread by thread."""
    found: list[dict[str, Any]] = []
    for number, lane in lanes:
        for span in lane.spans:
            found += _events(span, number, OTHER)
    return found


def render_ranks_perfetto(job: Job, tracks: Iterable[Steps]) -> SafeText:
    """Write the steps of all ranks, each as a process of its own, on one clock, with the findings as markers."""
    found = list(tracks)
    first = min((each.timeline.start for each in found if each.timeline.start is not None), default=0.0)
    events: list[dict[str, Any]] = []
    for each in found:
        process, offset = each.rank + 1, ((each.timeline.start or first) - first) / _MICRO
        lanes = list(enumerate(each.timeline.lanes, 1))
        events.append({**_named("process_name", 0, f"rank {each.rank}"), "pid": process})
        events += [{**_thread(number, lane), "pid": process} for number, lane in lanes]
        steps = [{**event, "pid": process, "ts": event["ts"] + offset * _MICRO} for event in _steps(lanes)]
        markers = [{**event, "ts": event["ts"] + offset * _MICRO} for event in _of_rank(job, each)]
        events += sorted([*steps, *markers], key=_time)
    return json_text({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"ctrace": __version__}})


def _of_rank(job: Job, steps: Steps) -> Iterator[dict[str, Any]]:
    """Yield what `ctrace ranks` found on one rank: where it parts from the others, recompiles, and is cut off."""
    process = steps.rank + 1
    parted = job.divergence
    if parted is not None and steps.rank in parted.values:
        value = parted.values[steps.rank]
        name = f"ranks part here: {parted.kind} of {parted.compilation} of {parted.function}: {value}"
        yield _instant(steps.starts.get(parted.compilation, _end_of(steps)), name, "divergence", process)
    for graph, at in steps.starts.items():
        if not graph.endswith("/0"):
            yield _instant(at, f"recompilation {graph}", "recompile", process)
    if steps.rank in job.cut:
        yield _instant(_end_of(steps), job.cut[steps.rank], "cut off", process)


def _end_of(steps: Steps) -> float:
    """Return when the last step of a rank ended."""
    return max((span.end for lane in steps.timeline.lanes for span in lane.spans), default=0.0)


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


def render_memory_perfetto(document: StepMemoryDocument) -> SafeText:
    """Write the timeline of a step as counters: bytes by kind, and below them the line that runs."""
    return json_text({"traceEvents": list(_memory_events(document)), "displayTimeUnit": "ns"})


def _memory_events(document: StepMemoryDocument) -> Iterator[dict[str, Any]]:
    name = f"{document.target}: computed order of events, not times"
    yield {"ph": "M", "name": "process_name", "pid": _PROCESS, "args": {"name": name}}
    kinds = sorted({each.kind for moment in document.found.timeline for each in moment.kinds})
    for index, moment in enumerate(document.found.timeline):
        time = index * _MOMENT
        known = {each.kind: each.bytes for each in moment.kinds}
        counter = {"ph": "C", "pid": _PROCESS, "ts": time}
        # Each event has all kinds: in Perfetto, a series without a value would keep its last one.
        yield {**counter, "name": "alive", "args": {kind: known.get(kind, 0) for kind in kinds}}
        file, colon, line = moment.at.rpartition(":")
        at = fmt.place(file, int(line), document.cwd) if colon and line.isdecimal() else moment.at
        slice_ = {"ph": "X", "pid": _PROCESS, "tid": 1, "ts": time, "dur": _MOMENT, "cat": moment.part}
        yield {**slice_, "name": at or moment.part, "args": {"part": moment.part, "bytes": moment.bytes}}
