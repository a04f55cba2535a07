"""The functions of a run, and how many ops of each were compiled."""

import pytest

from ctrace.inspector.facts.session import Coverage, Function
from ctrace.inspector.findings.breaks.coverage import total
from tests.support.helpers import MODEL, PROJECT, SITE, Log

MAIN = (MODEL, 50, "<module>")
CALL = (MODEL, 10, "forward")
RESUMED = "torch_dynamo_resume_in_forward_at_12"
FORWARD = (MODEL, 8, "Net.forward", 4)
HELPER = (MODEL, 31, "helper", 3)


def functions(log: Log) -> list[Function]:
    return list(log.session().functions)


def compiled() -> Log:
    """A function with a graph, called by the program."""
    return Log().started().compiled("0/0").bytecode("0/0", callers=[MAIN])


class TestWhich:
    def test_one_that_was_compiled(self):
        assert functions(compiled()) == [Function("Net.forward", MODEL, 8, 1, compiled_for_itself=True)]

    def test_one_that_was_counted_and_never_met(self):
        assert functions(Log().ops(7, functions=[HELPER])) == [Function("helper", MODEL, 31, coverage=Coverage(3))]

    def test_one_that_was_left_alone(self):
        log = Log().left_alone("helper", 31, callers=[MAIN])
        assert functions(log) == [Function("Net.helper", MODEL, 31, compiled_for_itself=True)]

    def test_one_that_dynamo_gave_up(self):
        assert [(each.name, each.graphs) for each in functions(Log().gave_up("0/0"))] == [("forward", 0)]

    def test_each_once_however_many_sources_name_it(self):
        log = compiled().compiled("0/1").gave_up("0/2").left_alone().ops(7, functions=[FORWARD])
        assert [each.name for each in functions(log)] == ["Net.forward"]

    def test_a_resumed_part_is_none_of_its_own(self):
        log = compiled().compiled("1/0", RESUMED, 12).bytecode("1/0", RESUMED, 12).left_alone(RESUMED, 12)
        assert [(each.name, each.graphs) for each in functions(log)] == [("Net.forward", 2)]

    def test_functions_of_one_name_are_told_apart_by_their_line(self):
        log = Log().ops(7, functions=[FORWARD, (MODEL, 40, "Head.forward", 3)])
        assert [(each.name, each.line) for each in functions(log)] == [("Net.forward", 8), ("Head.forward", 40)]

    def test_those_of_libraries_count_and_torchs_do_not(self):
        log = Log().started().left_alone("rearrange", 9, file=f"{SITE}/einops/einops.py")
        log.left_alone("embedding", 77, file=f"{SITE}/torch/nn/functional.py")
        assert [each.name for each in functions(log)] == ["Net.rearrange"]


class TestOps:
    def test_those_of_each(self):
        log = compiled().ops(7, 2, functions=[FORWARD, HELPER], stacks=[([CALL, (MODEL, 33, "helper")], 2)])
        found = {each.name: each.coverage for each in functions(log)}
        assert found == {"Net.forward": Coverage(4, 4), "helper": Coverage(3, 1)}

    def test_of_all_scenarios(self):
        log = Log().ops(4, 1, functions=[FORWARD], stacks=[([CALL], 1)])
        log.ops(4, 2, scenario="wide", functions=[FORWARD], stacks=[([CALL], 2)])
        assert [each.coverage for each in functions(log)] == [Coverage(8, 5)]

    def test_a_resumed_parts_are_those_of_its_function(self):
        log = Log().ops(4, 1, functions=[FORWARD], stacks=[([(MODEL, 12, RESUMED)], 1)])
        assert [each.coverage for each in functions(log)] == [Coverage(4, 3)]

    def test_of_functions_of_one_name_they_are_the_last_ones_above_the_line(self):
        log = Log().ops(
            7, 3, functions=[FORWARD, (MODEL, 40, "Head.forward", 3)], stacks=[([(MODEL, 44, "forward")], 3)]
        )
        assert [each.coverage for each in functions(log)] == [Coverage(4, 4), Coverage(3, 0)]

    def test_more_left_than_there_were_is_none_compiled(self):
        log = Log().ops(4, 9, functions=[FORWARD], stacks=[([CALL], 9)])
        assert [each.coverage for each in functions(log)] == [Coverage(4, 0)]

    def test_without_a_count_of_the_compiled_call_only_the_whole_is_known(self):
        assert [each.coverage for each in functions(Log().ops(4, functions=[FORWARD]))] == [Coverage(4)]

    def test_one_that_eager_never_called_has_a_measured_zero(self):
        assert [each.coverage for each in functions(compiled().ops(7, 0))] == [Coverage(0, 0)]


class TestAskedFor:
    def asked_for(self, log: Log) -> list[str]:
        return [each.name for each in functions(log) if each.compiled_for_itself]

    def test_what_the_program_calls(self):
        assert self.asked_for(compiled()) == ["Net.forward"]

    def test_not_what_a_compiled_function_calls(self):
        log = compiled().compiled("1/0", "helper", 31).bytecode("1/0", "helper", 31, callers=[MAIN, CALL])
        assert self.asked_for(log) == ["Net.forward"]

    def test_nor_what_a_function_calls_that_was_left_alone(self):
        log = Log().left_alone(callers=[MAIN]).left_alone("helper", 31, callers=[MAIN, CALL])
        assert self.asked_for(log) == ["Net.forward"]

    def test_both_of_two(self):
        log = compiled().compiled("1/0", "other", 31).bytecode("1/0", "other", 31, callers=[MAIN])
        assert self.asked_for(log) == ["Net.forward", "Net.other"]

    def test_one_that_calls_itself(self):
        assert self.asked_for(Log().compiled("0/0").bytecode("0/0", callers=[MAIN, CALL])) == ["Net.forward"]

    def test_in_a_log_of_torch_alone_nobody_knows(self):
        assert self.asked_for(Log().compiled("0/0")) == []


class TestCoverage:
    def test_the_sum_of_all_scenarios(self):
        log = Log().scenario("a").ops(5, 0, scenario="a").scenario("b").ops(7, 3, scenario="b")
        session = log.session()
        assert session.coverage == Coverage(12, 9)
        assert [each.coverage for each in session.scenarios] == [Coverage(5, 5), Coverage(7, 4)]

    def test_never_less_than_nothing(self):
        assert Log().scenario("base").ops(5, 9).session().coverage == Coverage(5, 0)

    def test_without_an_eager_run_nothing_is_known(self):
        assert Log().scenario("a").session().coverage == Log().session().coverage == Coverage(None, None)

    def test_without_a_compiled_count_only_the_whole_is_known(self):
        assert Log().scenario("base").ops(5).session().coverage == Coverage(5, None)

    def test_nothing_compiled_is_a_measured_zero(self):
        assert Log().scenario("base").ops(5, 5).session().coverage == Coverage(5, 0)

    def test_ops_of_a_scenario_that_never_was_count_for_nothing(self):
        assert Log().ops(5, 0, scenario="elsewhere").scenario("base").session().coverage == Coverage()

    @pytest.mark.parametrize(
        ("parts", "whole"),
        [
            ([], Coverage()),
            ([Coverage()], Coverage()),
            ([Coverage(0, 0)], Coverage(0, 0)),
            ([Coverage(5, 3), Coverage(2, 2)], Coverage(7, 5)),
            ([Coverage(5, 3), Coverage(2)], Coverage(7)),
        ],
    )
    def test_a_sum_is_measured_if_its_parts_are(self, parts: list[Coverage], whole: Coverage):
        assert total(parts) == whole


def test_a_file_of_that_name_elsewhere_is_another():
    log = compiled().ops(7, functions=[FORWARD, (f"{PROJECT}/other.py", 8, "Net.forward", 3)])
    assert [(each.file, each.graphs) for each in functions(log)] == [(MODEL, 1), (f"{PROJECT}/other.py", 0)]
