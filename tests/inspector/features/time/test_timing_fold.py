"""The events of a process become measurements."""

import json
from pathlib import Path

import pytest
from msgspec import to_builtins

from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.features.time.events import Done, Event, Noted, Setup, TimingResults, line_of
from ctrace.inspector.features.time.timing_model import CompileConfiguration, TimingRequest
from ctrace.inspector.features.time.timing_view import break_even, breakdowns, crowd, fixed_costs
from ctrace.inspector.findings.ratios import RatioVerdict
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from tests.support import timings


def test_break_even_is_the_compile_time_over_what_a_call_saves():
    part = timings.FASTER.first
    assert part is not None
    assert part.saved == pytest.approx(0.33e-3, rel=0.02)
    assert timings.FASTER.compile_seconds == pytest.approx(3.0)
    assert break_even(timings.FASTER) == pytest.approx(3.0 / 0.33e-3, rel=0.02)


@pytest.mark.parametrize("name", ["slower", "same", "noisy", "few", "broken"])
def test_what_is_not_faster_never_pays(name: str):
    assert break_even(timings.ALL[name]) is None


def test_the_compile_time_counts_the_calls_up_to_the_last_that_compiled():
    warm = WarmedUp("base", "forward", "compiled", (5.0, 1.0, 3.0, 1.0, 1.0, 1.0), (0, 2), 0, settled=True)
    assert timings.folded(timings.DEFAULT, [warm]).compile_seconds() == pytest.approx(4.0 + 0.0 + 2.0)


def test_the_compile_time_of_a_model_that_compiled_nothing_is_zero_and_of_no_call_unknown():
    warm = WarmedUp("base", "forward", "compiled", (5.0, 1.0, 1.0), (), 0, settled=True)
    assert timings.folded(timings.DEFAULT, [warm]).compile_seconds() == 0.0
    assert timings.folded(timings.DEFAULT, []).compile_seconds() is None


def test_rounds_that_compile_do_not_count():
    part = timings.TRAIN.parts[3]
    assert (part.scenario, part.unclean) == ("wide", 1)
    assert part.compiled is not None
    assert part.compiled.rounds == 15
    assert part.compiled.high < 1


def test_the_first_part_with_rounds_is_the_headline():
    assert timings.TRAIN.first is not None
    assert (timings.TRAIN.first.scenario, timings.TRAIN.first.part) == ("base", "step")


def test_verdicts():
    found = {
        name: each.first.speedup.verdict for name, each in timings.ALL.items() if each.first and each.first.speedup
    }
    assert found == {
        "faster": RatioVerdict.FASTER,
        "slower": RatioVerdict.SLOWER,
        "same": RatioVerdict.NO_DIFFERENCE,
        "noisy": RatioVerdict.UNDECIDED,
        "few": RatioVerdict.UNDECIDED,
        "train": RatioVerdict.FASTER,
    }


@pytest.mark.parametrize("name", ["faster", "slower"])
def test_the_shares_of_a_call_add_up_to_it(name: str):
    (found,) = breakdowns(timings.ALL[name])
    for side in ("eager", "compiled"):
        parts = [getattr(each, side) for each in found.program]
        assert sum(each for each in parts if each is not None) == pytest.approx(getattr(found.calls, side))


def test_fixed_costs_are_the_share_that_sizes_do_not_change():
    assert fixed_costs(timings.SLOWER) == pytest.approx(0.7)
    assert fixed_costs(timings.BROKEN) is None


def test_profiled_calls_that_take_far_longer_than_timed_ones_explain_nothing():
    quiet, disturbed = (
        timings.measured(
            timings.setup(),
            *timings.timed(159e-6, 114e-6),
            timings.shares("eager", 250e-6),
            timings.shares("compiled", profiled, on_gpu=True),
        )
        for profiled in (300e-6, 79.2e-3)
    )
    assert [each.is_disturbed for each in breakdowns(quiet)] == [False]
    assert fixed_costs(quiet) is not None
    assert [each.is_disturbed for each in breakdowns(disturbed)] == [True]
    assert fixed_costs(disturbed) is None


def test_a_crowd_is_more_processes_than_cores():
    assert crowd(timings.NOISY) == pytest.approx(11.5 / 8)
    assert crowd(timings.FASTER) is None


def test_events_survive_the_file_and_damaged_lines_are_counted(tmp_path: Path):
    events = [timings.setup(), *timings.timed(1.0, 2.0), timings.shares("compiled", 1.0), Noted("a", "b"), Done()]
    path = tmp_path / "results"
    path.write_bytes(line_of(events[0]))
    results = TimingResults(path)
    assert list(results.new()) == events[:1]
    with path.open("ab") as file:
        rest = b"".join(map(line_of, events[1:]))
        file.write(rest[:100])
    before = list(results.new())
    with path.open("ab") as file:
        file.write(rest[100:] + b'not json\n{"event": "Nothing"}\n[1]\n{"event": "RoundDone", "scenario": 3}\n')
    assert [*before, *results.new()] == events[1:]
    assert results.damaged == 4


def test_an_order_survives_its_file(tmp_path: Path):
    capture = CaptureRequest("model", "model.py", None, None, (), Options(train=True, inputs=("float32[8]",)), "")
    configuration = CompileConfiguration("x", mode="default", options={"a.b": "1"})
    order = TimingRequest(capture, configuration, "results", (configuration,), 7, 1, fresh=True)
    (tmp_path / "order.json").write_text(order.to_json())
    assert TimingRequest.from_file(tmp_path / "order.json") == order


def test_an_order_with_an_unknown_field_is_refused(tmp_path: Path):
    order = TimingRequest(
        CaptureRequest("model", "m.py", None, None, (), Options(), ""), CompileConfiguration("x"), "results"
    )
    (tmp_path / "order.json").write_text(json.dumps({**to_builtins(order), "more": 1}))
    with pytest.raises(ValueError, match="more"):
        TimingRequest.from_file(tmp_path / "order.json")


def test_a_process_that_ended_early_keeps_its_rounds():
    events: list[Event] = [
        Setup("2.13", "3.11", "cpu", 1, 1, ("base",), ("forward",)),
        RoundDone("base", "forward", 2.0, 1.0),
    ]
    found = timings.folded(timings.DEFAULT, events).measured(stopped="interrupted")
    assert found.first is not None
    assert found.first.eager is not None
    assert found.first.eager.median == 2.0
    assert found.compiled is None
