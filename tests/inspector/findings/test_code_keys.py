"""Find the function of a frame, and the functions that Dynamo compiles directly."""

import pytest

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.findings.functions import Codes, Key
from ctrace.inspector.log.collected_log import CollectedLog
from tests.support.helpers import MODEL, Log

RESUMED = "torch_dynamo_resume_in_forward_at_12"


def codes(log: Log) -> Codes:
    raw = CollectedLog()
    for entry in log.entries():
        raw.add(entry)
    return Codes(raw)


@pytest.mark.parametrize(("line", "begins"), [(8, 8), (12, 8), (29, 8), (30, 30), (99, 30), (7, 7)])
def test_of_several_functions_of_a_name_it_is_the_last_that_begins_before_the_line(line: int, begins: int):
    known = codes(Log().started().left_alone("forward", 8).left_alone("forward", 30))
    assert known.key(Frame(MODEL, line, "forward")) == (MODEL, "forward", begins)


def test_a_resumed_part_is_its_function():
    known = codes(Log().started().left_alone("forward", 8).frame("0/0", RESUMED, 12))
    assert known.key(Frame(MODEL, 12, RESUMED)) == (MODEL, "forward", 8)


def test_those_that_were_compiled_given_up_or_left_alone_are_met():
    known = codes(Log().started().compiled("0/0").gave_up("1/0", "helper", 31).left_alone("other", 40))
    names = ("forward", 8), ("helper", 31), ("other", 40), ("<module>", 50)
    assert [known.is_met((MODEL, name, line)) for name, line in names] == [True, True, True, False]


OUTER, HELPER, MAIN = (MODEL, "outer", 1), (MODEL, "helper", 31), (MODEL, "<module>", 50)


@pytest.mark.parametrize(
    ("callers", "expected"),
    [([], True), ([MAIN], True), ([MAIN, HELPER], True), ([OUTER], False), ([OUTER, HELPER], False)],
)
def test_a_function_that_no_other_led_to_is_a_root(callers: list[Key], expected: bool):
    known = codes(Log().started().left_alone("outer", 1).left_alone("helper", 31))
    assert known.is_root(HELPER, callers) is expected
