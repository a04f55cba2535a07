"""Disagreements between two sources of a run are reported once, with the numbers of both."""

from typing import Any

import pytest

from ctrace.inspector.facts.passes import Attention, AttentionFound, Pass
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.session.crosschecks import disagreements
from tests.support.helpers import MODEL, Log

RESUMED = "torch_dynamo_resume_in_forward_at_10"
LINK = "Failed to trace builtin operator\n For more details: https://example.org/gb/gb{}.html"


def found(log: Log) -> list[str]:
    return [problem.what for problem in log.session().problems]


def broken() -> Log:
    """Return the log of a function that a break splits into two graphs."""
    return Log().compiled("0/0").breaks("0/0").compiled("1/0", RESUMED, 10)


def counted() -> dict[str, dict[str, int]]:
    """Torch's counters for `broken`."""
    return {
        "frames": {"total": 2, "ok": 2},
        "graph_break": {LINK.format("0059"): 1},
        "stats": {"unique_graphs": 2, "calls_captured": 4},
    }


def test_sources_that_agree():
    assert found(broken().counters(**counted())) == []


def test_a_log_of_torch_alone_has_no_counters_to_disagree_with():
    log = Log().frame("0/0").record("dynamo_output_graph", {}, at="0/0").metrics("0/0", graph_op_count=2).breaks("0/0")
    assert found(log.frame("1/0", RESUMED, 10).metrics("1/0").gave_up("2/0", "helper", 31)) == []


class TestBreaks:
    def test_more_counted_than_reported(self):
        (what,) = found(broken().counters(**{**counted(), "graph_break": {LINK.format("0059"): 3}}))
        assert what.startswith("graph breaks GB0059: torch's counter graph_break says 3, the break entries")
        assert " 1; some breaks may be missing" in what

    def test_counted_and_not_reported(self):
        log = Log().compiled("0/0").counters(graph_break={LINK.format("0124"): 1})
        (what,) = found(log)
        assert "GB0124" in what
        assert "says 1, the break entries of the trace 0;" in what

    def test_torch_counts_some_breaks_not_at_all(self):
        assert found(broken().breaks("1/0").breaks("1/0", gb=("0124",)).counters(**counted())) == []

    def test_messages_of_one_id_are_added_up(self):
        messages = {f"{word} {LINK.format('0059')}": 1 for word in ("one", "two")}
        (what,) = found(broken().counters(graph_break=messages))
        assert "says 2" in what

    def test_each_id_of_a_message_is_counted_once(self):
        message = LINK.format("0059") + LINK.format("0124") + LINK.format("0059")
        assert found(broken().breaks("0/0", gb=("0124",)).counters(graph_break={message: 1})) == []
        (what,) = found(broken().counters(graph_break={message: 1}))
        assert "GB0124" in what

    def test_a_break_that_torch_met_while_it_handled_another_is_no_entry(self):
        message = (
            f"{LINK.format('0059')}\n\n*** While handling this graph break, another one occurred: {LINK.format('0066')}"
        )
        assert found(broken().counters(graph_break={message: 1})) == []

    def test_a_message_without_an_id_says_nothing(self):
        assert found(broken().counters(graph_break={"call to print": 9})) == []


class TestResumeFunctions:
    def test_one_without_a_break(self):
        (what,) = found(Log().compiled("0/0").compiled("1/0", RESUMED, 10))
        assert what.startswith(f"forward resumes at {MODEL}:10, but the trace has no break entry for that function")

    def test_one_of_another_function_than_the_one_that_broke(self):
        frames = [(MODEL, 33, "helper", "print(x)")]
        assert len(found(Log().breaks("0/0", frames=frames).compiled("1/0", RESUMED, 10))) == 1

    def test_a_break_in_what_it_calls_is_one_in_it(self):
        frames = [(MODEL, 10, "forward", "helper(x)"), (MODEL, 33, "helper", "print(x)")]
        assert found(Log().breaks("0/0", frames=frames).compiled("1/0", RESUMED, 10)) == []

    def test_a_caller_of_the_same_name_is_left_out_of_the_stack_by_torch(self):
        log = (
            Log()
            .compiled("0/0", "__init__", 8)
            .breaks("0/0", frames=[(f"{MODEL}.base.py", 33, "__init__", "print(x)")])
        )
        assert found(log.compiled("1/0", "torch_dynamo_resume_in___init___at_10", 10)) == []

    def test_each_once(self):
        log = Log().compiled("1/0", RESUMED, 10).compiled("1/1", RESUMED, 10)
        log.compiled("2/0", "torch_dynamo_resume_in_helper_at_33", 31)
        assert [what.partition(" ")[0] for what in found(log)] == ["forward", "helper"]


class TestGraphs:
    def test_more_counted_than_told(self):
        (what,) = found(Log().compiled("0/0").counters(stats={"unique_graphs": 2}))
        assert "unique_graphs says 2" in what
        assert "has 1 graph entries, and 1 were handed to a backend" in what

    def test_one_that_no_backend_was_handed(self):
        log = Log().compiled("0/0").frame("1/0").record("dynamo_output_graph", {}, at="1/0").metrics("1/0")
        (what,) = found(log.counters(stats={"unique_graphs": 2}))
        assert "has 2 graph entries, and 1 were handed" in what

    def test_one_without_an_entry(self):
        log = Log().compiled("0/0").ctrace("graph", {"backend": "eager", "ops": 2}, at="1/0").metrics("1/0")
        (what,) = found(log.counters(stats={"unique_graphs": 2}))
        assert "has 1 graph entries, and 2 were handed" in what

    @pytest.mark.parametrize("counted", [0, 1, 2])
    def test_one_that_was_made_again_may_be_counted_or_not(self, counted: int):
        log = Log().frame("0/0").graph("0/0").frame("0/0", attempt=1).graph("0/0").metrics("0/0")
        assert found(log.counters(stats={"unique_graphs": counted})) == []

    def test_a_torch_that_does_not_count_them(self):
        assert found(Log().compiled("0/0").counters(stats={})) == []

    def test_ops_without_a_graph(self):
        (what,) = found(Log().frame("0/0").metrics("0/0", graph_op_count=3))
        assert what == "compilation 0/0: its metrics count 3 ops in its graph, the trace has no graph"

    @pytest.mark.parametrize("values", [{"graph_op_count": 0}, {}, {"graph_op_count": 3, "fail_type": "Unsupported"}])
    def test_no_ops_or_a_failure_need_no_graph(self, values: dict[str, Any]):
        assert found(Log().frame("0/0").metrics("0/0", **values)) == []


class TestFailures:
    def failed(self, total: int, ok: int = 1) -> Log:
        """Return the log of one failed function and one generator, with torch's counters."""
        log = Log().compiled("0/0").gave_up("1/0", "helper", 31).left_alone("pieces", 41, rule="generator")
        return log.left_alone("count", 51, rule="no_tensor").counters(frames={"total": total, "ok": ok})

    def test_those_that_are_all_told(self):
        assert found(self.failed(3)) == []

    def test_more_counted_than_told(self):
        (what,) = found(self.failed(4))
        assert "counter frames says that 3 failed" in what
        assert "metrics of compilations show 1, and 1 were generators" in what

    def test_fewer_counted_than_told(self):
        assert found(self.failed(1)) == []

    def test_none_that_went_well(self):
        assert found(Log().gave_up("0/0").counters(frames={"total": 1})) == []
        assert len(found(Log().counters(frames={"total": 1}))) == 1

    def test_frames_that_nobody_counted(self):
        assert found(Log().counters(frames={"ok": 1})) == []


def test_torchs_counters_of_patterns_are_held_against_what_was_seen():
    raw = CollectedLog()
    raw.passes.append(Pass("p", "joint", (), 0, counters={"fuse_attention": 1}, matches=1, counted=1, graph="0/0"))
    raw.attention.append(
        AttentionFound("joint", (Attention(None, (), (), "", "", (), 1, lines=(), graph="0/0", stage="joint"),))
    )
    assert list(disagreements(raw, ())) == []
    raw.passes.append(Pass("q", "joint", (), 0, counters={"fuse_attention": 1}, matches=1, counted=2, graph="0/0"))
    assert [what.split(":")[0] for what in disagreements(raw, ())] == ["graph 0/0, pass q", "attention"]
