"""The trace holds against the trace event format: balanced, nested, in order, and complete events."""

import json
from typing import Any

import pytest

from ctrace.inspector.compile_time import view
from ctrace.inspector.model.session import Session
from ctrace.reports.perfetto import render_perfetto
from tests.support.compiling import Log, compiled, second


def events(session: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render_perfetto(session))["traceEvents"]
    return found


def check_format(found: list[dict[str, Any]]) -> dict[int, float]:
    """Check a list of events against the format; return the seconds of the outermost steps of each thread."""
    stacks: dict[int, list[tuple[str, float]]] = {}
    last = 0.0
    totals: dict[int, float] = {}
    for event in found:
        assert {"ph", "ts", "pid", "tid", "name"} <= set(event), event
        assert isinstance(event["ts"], int | float)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert set(event["args"]) == {"name"}
            continue
        assert event["ph"] in ("B", "E"), event
        assert event["ts"] >= last, "times go back"
        last = event["ts"]
        stack = stacks.setdefault(event["tid"], [])
        if event["ph"] == "B":
            stack.append((event["name"], event["ts"]))
            continue
        assert stack, f"{event} ends nothing"
        name, begin = stack.pop()
        assert name == event["name"], "not nested"
        if not stack:
            totals[event["tid"]] = totals.get(event["tid"], 0.0) + (event["ts"] - begin) / 1e6
    assert not any(stacks.values()), "not balanced"
    return totals


def several() -> Log:
    log = compiled(compiled(Log()), graph=second(1), begin=200)
    return log.span("compile_file", 41, 59, thread=9).span("compile_file", 45, 70, thread=8)


@pytest.mark.parametrize(
    "log",
    [
        several(),
        Log().mark("B", "dynamo", 0).mark("B", "backend_compile", 2),
        Log(ours=False).mark("B", "dynamo", 0).mark("B", "compile_file", 1).mark("B", "async_compile.wait", 2)
        .mark("E", "compile_file", 8).mark("E", "async_compile.wait", 9).mark("E", "dynamo", 10),
        Log().mark("B", "dynamo", 10).mark("B", "gc", 10).mark("E", "gc", 10).mark("E", "dynamo", 3),
        Log(),
    ],
    ids=["several", "cut", "torch", "clock", "empty"],
)  # fmt: skip
def test_trace_holds_against_the_format(log: Log) -> None:
    check_format(events(log.session()))


def test_the_trace_has_every_step_and_the_whole_time() -> None:
    session = several().session()
    totals = check_format(events(session))
    assert totals[1] == pytest.approx(view.seconds(session.compile_time))
    names = [event["args"]["name"] for event in events(session) if event["ph"] == "M"]
    assert names == ["torch.compile: /w/model.py", "compiling: 1", "in parallel: 9", "in parallel: 8"]
    begun = [event for event in events(session) if event["ph"] == "B"]
    assert len(begun) == 2 * 12 + 2
    assert {event["args"]["graph"] for event in begun} == {"0/0", "1/0"}
    assert {event["cat"] for event in begun} <= set(view.PHASES)


@pytest.mark.parametrize(
    "broken",
    [
        [{"ph": "B", "ts": 1, "pid": 1, "tid": 1, "name": "a"}],
        [{"ph": "E", "ts": 1, "pid": 1, "tid": 1, "name": "a"}],
        [{"ph": "B", "ts": 2, "pid": 1, "tid": 1, "name": "a"}, {"ph": "E", "ts": 1, "pid": 1, "tid": 1, "name": "a"}],
        [{"ph": "B", "ts": 2, "pid": 1, "name": "a"}, {"ph": "E", "ts": 3, "pid": 1, "name": "a"}],
    ],
)
def test_the_check_itself_fails_on_broken_traces(broken: list[dict[str, Any]]) -> None:
    with pytest.raises(AssertionError):
        check_format(broken)
