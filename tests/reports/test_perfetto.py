"""The trace holds against the trace event format: balanced, nested, in order, and complete events."""

import json
from typing import Any

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.ranks_of_job import read_job, steps_of
from ctrace.inspector.findings import compile_time_view
from ctrace.reports.perfetto import render_perfetto, render_ranks_perfetto
from tests.support.compiling import Log, compiled, second
from tests.support.places import DATA


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
        if event["ph"] == "i":
            assert event["s"] == "p"
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
    assert totals[1] == pytest.approx(compile_time_view.seconds(session.compile_time))
    names = [event["args"]["name"] for event in events(session) if event["ph"] == "M"]
    assert names == ["torch.compile: /w/model.py", "compiling: 1", "in parallel: 9", "in parallel: 8"]
    begun = [event for event in events(session) if event["ph"] == "B"]
    assert len(begun) == 2 * 12 + 2
    assert {event["args"]["graph"] for event in begun} == {"0/0", "1/0"}
    assert {event["cat"] for event in begun} <= set(compile_time_view.PHASES)


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


def rank_events(case: str) -> list[dict[str, Any]]:
    job = read_job(DATA / "ranks" / case)
    tracks = [steps_of(log) for log in job.logs.values()]
    found: list[dict[str, Any]] = json.loads(render_ranks_perfetto(job, tracks))["traceEvents"]
    return found


@pytest.mark.parametrize("case", ["ddp", "order", "killed", "recompile"])
def test_ranks_are_processes_on_one_clock(case: str) -> None:
    found = rank_events(case)
    ranks = {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert ranks == {1: "rank 0", 2: "rank 1"}
    for process in ranks:
        assert check_format([event for event in found if event["pid"] == process])
    assert min(event["ts"] for event in found if event["ph"] == "B") == 0


def markers(case: str) -> list[tuple[int, str, str]]:
    return [(event["pid"], event["cat"], event["name"]) for event in rank_events(case) if event["ph"] == "i"]


def test_ranks_that_agree_have_no_marker() -> None:
    assert markers("ddp") == []


def test_the_divergence_is_marked_on_each_rank_with_its_value() -> None:
    first, second = markers("order")
    assert first == (
        1,
        "finding: divergence",
        "ranks part here: collective of 0/0 of reduced: all_reduce(l_x_, 'sum', '0')",
    )
    assert second[0] == 2
    assert "all_reduce(l_y_, 'max', '0')" in second[2]


def test_a_rank_that_was_cut_off_is_marked() -> None:
    assert "finding: cut off" in {kind for _, kind, _ in markers("killed")}


def test_recompilations_of_a_rank_are_marked() -> None:
    assert "recompilation 0/1" in {name for _, _, name in markers("recompile")}
