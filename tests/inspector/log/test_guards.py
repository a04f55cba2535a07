"""Our own records about guards become typed events."""

from typing import Any, ClassVar

import pytest

from ctrace.inspector.facts import guard_facts as ge
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.guard_facts import Duration, GuardCost, KindCost, LeftOut, PartCost
from ctrace.inspector.findings.guard_view import heads
from ctrace.inspector.log.dispatch import decode
from ctrace.inspector.log.reader import LogEntry
from tests.support.helpers import GUARD_COST, MODEL, Log, stack_of, unmet

LEFT_OUT = (LeftOut("EMPTY_NN_MODULE_HOOKS_DICT", "torch.skip", 3),)
HERE = (Frame(MODEL, 9, "forward"),)


def event_of(log: Log) -> ev.Event:
    *_, entry = log.entries()
    assert isinstance(entry, LogEntry)
    return decode(entry)


class TestUnmet:
    def test_guards_of_each_entry(self):
        newer = unmet("L['n'] == 2", "L['m'] is None", entry="0/1", lines=(9,), now="3", hint="make it a tensor")
        gone = {"id": "0/0", "unmet": [], "invalid": "the model is gone"}
        data = {"entries": [newer, gone], "closure": ["n"], "seconds": 0.25}
        guards = tuple(
            ge.UnmetGuard(text, "3", stack=HERE, hint="make it a tensor") for text in ("L['n'] == 2", "L['m'] is None")
        )
        assert event_of(Log().ctrace("recompile", data, at="0/2")) == ge.GuardsFailed(
            (ge.EntryHeld("0/1", guards, 2), ge.EntryHeld("0/0", (), invalid="the model is gone")),
            ("n",),
            0.25,
            id="0/2",
        )

    def test_more_may_be_unmet_than_are_listed(self):
        entry = {**unmet("L['n'] == 2"), "number": 90}
        event = event_of(Log().ctrace("recompile", {"entries": [entry]}, at="0/1"))
        assert isinstance(event, ge.GuardsFailed)
        assert (event.entries[0].number, len(event.entries[0].unmet)) == (90, 1)

    def test_what_an_older_ctrace_did_not_write(self):
        entry = {"id": "0/0", "unmet": [{"guard": "L['n'] == 2", "comment": "# n"}], "stack": stack_of(())}
        event = event_of(Log().ctrace("recompile", {"entries": [entry]}, at="0/1"))
        assert event == ge.GuardsFailed((ge.EntryHeld("0/0", (ge.UnmetGuard("L['n'] == 2"),), 1),), id="0/1")


def test_a_tree_is_kept_as_text():
    assert event_of(Log().guards("0/0", "TREE:\n+- RootGuardManager")) == ge.GuardsPrinted(
        "0/0", "TREE:\n+- RootGuardManager"
    )


def test_a_tree_belongs_to_a_compilation():
    with pytest.raises(ValueError, match="without a compile id"):
        event_of(Log().record("dynamo_cpp_guards_str", {}, payload="TREE"))


class TestPlaced:
    DATA: ClassVar[dict[str, Any]] = {
        "stacks": [{"frames": stack_of([(MODEL, 9, "forward")])}, {"frames": []}],
        "lines": [0, -1, 0, 1],
        "left_out": [{"kind": "EMPTY_NN_MODULE_HOOKS_DICT", "why": "torch.skip", "number": 3}],
        "object": "Block 2",
    }

    def test_a_stack_for_each_line(self):
        event = event_of(Log().ctrace("guards", self.DATA, at="0/0"))
        assert isinstance(event, ge.GuardsPlaced)
        assert event.places == (HERE, None, HERE, ())
        assert (event.id, event.left_out, event.of_object) == ("0/0", LEFT_OUT, "Block 2")

    def test_a_function_is_no_method(self):
        event = event_of(Log().ctrace("guards", {**self.DATA, "object": None}, at="0/0"))
        assert isinstance(event, ge.GuardsPlaced)
        assert event.of_object is None

    @pytest.mark.parametrize("number", [2, 10**30])
    def test_a_stack_that_is_not_there(self, number: int):
        log = Log().started().compiled("0/0").ctrace("guards", {**self.DATA, "lines": [number]}, at="0/0").ended()
        (problem,) = log.session().problems
        assert problem.what.startswith("a artifact:ctrace_guards entry is not as expected")


def test_costs():
    assert event_of(Log().ctrace("guard_cost", GUARD_COST, at="0/0")) == GuardCost(
        id="0/0",
        cold=40.0,
        warm=6.0,
        plain=Duration(41.0, 6.0),
        root=Duration(4.0, 1.0),
        parts=(PartCost("L['x']", 0, 3, 9.0, 2.0),),
        kinds=(KindCost("TENSOR_MATCH", 3, 1.5),),
        epilogue=0.5,
    )


@pytest.mark.parametrize("name", GUARD_COST)
def test_costs_are_whole_or_none(name: str):
    rest = {key: value for key, value in GUARD_COST.items() if key != name}
    with pytest.raises(ValueError, match=name):
        event_of(Log().ctrace("guard_cost", rest, at="0/0"))


class TestSession:
    """The part of it in a session."""

    TREE = "+- RootGuardManager\n| +- GuardManager: source=L['x'], type=<class 'int'>, tag_safe=(True, False)\n"

    def test_all_of_one_compilation(self):
        log = Log().started().compiled("0/0").guards("0/0", self.TREE).ctrace("guards", TestPlaced.DATA, at="0/0")
        printed = log.ctrace("guard_cost", GUARD_COST, at="0/0").session().guards["0/0"]
        assert printed.text == self.TREE
        assert printed.stacks == (HERE, None, HERE, ())
        assert printed.left_out == LEFT_OUT
        assert printed.cost is not None
        assert printed.cost.whole.warm == 6.0

    def test_of_a_log_of_torch_alone(self):
        printed = Log().compiled("0/0").guards("0/0", self.TREE).session().guards["0/0"]
        assert (printed.stacks, printed.left_out, printed.cost) == (None, (), None)

    def test_the_last_attempt_counts(self):
        log = Log().compiled("0/0").guards("0/0", "old").guards("0/0", self.TREE)
        assert log.session().guards["0/0"].text.startswith("+- Root")

    def test_a_tree_of_no_compilation_is_not_shown(self):
        session = Log().started().guards("5/0", self.TREE).session()
        assert heads(session) == ()

    def test_whose_method_it_is(self):
        log = Log().compiled("0/0").ctrace("guards", TestPlaced.DATA, at="0/0").compiled("0/1")
        assert [each.of_object for each in log.session().compilations] == ["Block 2", None]
