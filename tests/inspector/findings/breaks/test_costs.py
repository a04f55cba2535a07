"""What breaks and skips cost: ops in eager, and graphs."""

from typing import Any

from ctrace.inspector.facts.findings import Cost
from tests.support.helpers import MODEL, REST_IN_EAGER, SITE, Log, Place

MAIN = (MODEL, 50, "<module>")
AT_BREAK = (MODEL, 10, "forward")
LATER = (MODEL, 14, "forward")
IN_HELPER = (MODEL, 33, "helper")
RESUMED = "torch_dynamo_resume_in_forward_at_10"


def broken(**parts: Any) -> Log:
    """A function with a break in line 10, which splits it into two graphs."""
    frames = [(*MAIN, "model(x)"), (*AT_BREAK, "print(x)")]
    log = Log().started().compiled("0/0").bytecode("0/0", callers=[MAIN]).breaks("0/0", frames=frames, **parts)
    return log.compiled("1/0", RESUMED, 10).bytecode("1/0", RESUMED, 10, callers=[MAIN, AT_BREAK])


def left(log: Log, *stacks: tuple[list[Place], int]) -> Log:
    """Add ops that run eagerly, each with its stack."""
    return log.ops(9, sum(ops for _, ops in stacks), stacks=stacks)


def costs(log: Log) -> tuple[list[Cost], list[Cost]]:
    session = log.session()
    assert session.problems == ()
    return [each.cost for each in session.breaks], [each.cost for each in session.skips]


class TestOps:
    def test_ops_at_the_line_of_a_break_are_the_breaks(self):
        log = left(broken(), ([MAIN, AT_BREAK], 2), ([MAIN, LATER], 3))
        assert costs(log.ended()) == ([Cost(2, 1)], [])

    def test_so_are_those_of_what_is_called_there(self):
        stack = [MAIN, AT_BREAK, (f"{SITE}/einops/einops.py", 9, "rearrange")]
        assert costs(left(broken(), (stack, 2)).ended()) == ([Cost(2, 1)], [])

    def test_ops_of_a_resumed_part_are_those_of_its_function(self):
        log = left(broken(), ([MAIN, (MODEL, 10, RESUMED)], 2))
        assert costs(log.ended()) == ([Cost(2, 1)], [])

    def test_ops_that_nobody_is_to_blame_for(self):
        log = left(broken(), ([MAIN, LATER], 2), ([], 1), ([MAIN], 1))
        assert costs(log.ended()) == ([Cost(0, 1)], [])

    def test_where_the_rest_runs_in_eager_its_ops_are_the_breaks(self):
        log = left(broken(lead=REST_IN_EAGER), ([MAIN, LATER], 3), ([MAIN, AT_BREAK], 1), ([MAIN, IN_HELPER], 1))
        assert costs(log.ended()) == ([Cost(4, 1)], [])

    def test_ops_of_a_function_that_was_left_in_eager_are_the_skips(self):
        log = left(broken().left_alone("helper", 31, rule="generator"), ([MAIN, LATER, IN_HELPER], 4))
        assert costs(log.ended()) == ([Cost(0, 1)], [Cost(4)])

    def test_the_innermost_to_blame_pays(self):
        log = broken().left_alone("helper", 31, rule="generator")
        assert costs(left(log, ([MAIN, AT_BREAK, IN_HELPER], 4)).ended()) == ([Cost(0, 1)], [Cost(4)])

    def test_a_function_that_a_break_left_in_eager_pays_for_itself(self):
        log = Log().started().gave_up("0/0").breaks("0/0").ops(9, 9, stacks=[([AT_BREAK], 4), ([LATER], 5)])
        assert costs(log.ended()) == ([Cost(0)], [Cost(9)])

    def test_all_scenarios_count(self):
        log = broken().ops(9, 2, stacks=[([AT_BREAK], 2)]).ops(9, 3, scenario="wide", stacks=[([AT_BREAK], 3)])
        assert costs(log.ended()) == ([Cost(5, 1)], [])

    def test_of_two_breaks_each_pays_for_its_own(self):
        log = broken().breaks("1/0", gb=("0124",), frames=[(*MAIN, "model(x)"), (*LATER, "x.item()")])
        log = left(log, ([MAIN, AT_BREAK], 2), ([MAIN, LATER], 3))
        assert costs(log.ended()) == ([Cost(2, 1), Cost(3)], [])

    def test_what_was_not_counted_is_not_a_zero(self):
        log = broken().left_alone("helper", 31, rule="generator").ended()
        assert costs(log) == ([Cost(None, 1)], [Cost(None)])

    def test_without_a_count_of_the_compiled_call_nothing_is_known(self):
        assert costs(broken().ops(9).ended()) == ([Cost(None, 1)], [])


class TestGraphs:
    def test_the_first_graph_is_nobodys(self):
        log = Log().started().compiled("0/0").bytecode("0/0", callers=[MAIN])
        log.breaks("0/0", frames=[(*MAIN, "model(x)"), (*AT_BREAK, "print(x)")])
        assert costs(log.ended()) == ([Cost()], [])

    def test_a_resumed_part_is_one_more(self):
        assert costs(broken().ended()) == ([Cost(None, 1)], [])

    def test_so_is_a_function_that_python_calls_at_the_break(self):
        log = broken().compiled("2/0", "helper", 31).bytecode("2/0", "helper", 31, callers=[MAIN, AT_BREAK])
        assert costs(log.ended()) == ([Cost(None, 2)], [])

    def test_a_recompile_is_none(self):
        log = broken().compiled("1/1", RESUMED, 10).bytecode("1/1", RESUMED, 10, callers=[MAIN, AT_BREAK])
        assert costs(log.ended()) == ([Cost(None, 1)], [])

    def test_whoever_called_the_function_broke_nothing(self):
        log = broken().compiled("2/0", "other", 60).bytecode("2/0", "other", 60, callers=[MAIN])
        assert costs(log.ended()) == ([Cost(None, 1)], [])

    def test_parts_of_a_function_that_was_left_in_eager_are_the_skips_but_for_the_first(self):
        log = Log().started().left_alone("forward", 8, rule="generator", callers=[MAIN])
        for number, line in enumerate((31, 41, 51)):
            name = f"helper{number}"
            log.compiled(f"{number}/0", name, line).bytecode(f"{number}/0", name, line, callers=[MAIN, LATER])
        assert costs(log.ended()) == ([], [Cost(None, 2)])

    def test_a_graph_whose_callers_nobody_recorded_is_none(self):
        log = Log().started().compiled("0/0").breaks("0/0").compiled("1/0", RESUMED, 10)
        assert costs(log.ended()) == ([Cost()], [])
