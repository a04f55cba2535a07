"""Where and why a size was fixed, from torch's own entries."""

import pytest

from ctrace.inspector.facts.shape_facts import ConditionKind
from ctrace.inspector.findings.shape_fold import shapes_of
from ctrace.inspector.findings.shape_symbols import FixedSize, Symbols
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.log.reader import read
from tests.support import sizes
from tests.support.helpers import MODEL, PROJECT, SITE, Log
from tests.support.places import DATA

X, Y = "L['x'].size()[0]", "L['y'].size()[0]"
LOOP: sizes.Line = (MODEL, 12, "forward", "for i in range(x.shape[0]):")
ADD: sizes.Line = (MODEL, 11, "forward", "z = x + y")


def fixed_at(raw: CollectedLog, compile_id: str, source: str) -> FixedSize | None:
    symbols = Symbols(raw, compile_id)
    return symbols.fixed(source) or next(iter(symbols.conditions(source)), None)


def _raw(log: Log) -> CollectedLog:
    raw = CollectedLog()
    for entry in log.entries():
        raw.add(entry)
    assert raw.problems == []
    return raw


def _started() -> Log:
    return sizes.symbol(Log().started().frame("0/1"), "0/1", "s77", X)


def _found(log: Log, source: str = X) -> FixedSize:
    found = fixed_at(_raw(log), "0/1", source)
    assert found is not None
    return found


def _looped() -> Log:
    log = sizes.condition(_started(), "0/1", "Eq(s77, 8)", sizes.NUMBER, [LOOP])
    return sizes.fixed(log, "0/1", "s77", "8", [X], lines=[LOOP])


class TestConstant:
    def test_line_value_and_reason(self) -> None:
        found = _found(_looped())
        assert (found.condition, found.value, found.kind) == ("x.size(0) == 8", "8", ConditionKind.NUMBER)
        assert found.frame is not None
        assert (found.frame.file, found.frame.line, found.frame.function) == (MODEL, 12, "forward")
        assert found.reason == "range_refined_to_singleton"
        assert found.why == f"`{LOOP[3]}` uses x.size(0) as a plain number, so torch specialized on 8."

    @pytest.mark.parametrize(
        ("functions", "kind", "sentence"),
        [
            (sizes.BRANCH, ConditionKind.CONDITION, "only 8 takes it"),
            (sizes.CHECK, ConditionKind.CHECK, "is only valid if x.size(0) == 8"),
            (sizes.OPERATION, ConditionKind.OPERATION, "depends on whether x.size(0) == 8"),
        ],
    )
    def test_what_needed_it(self, functions: tuple[str, ...], kind: ConditionKind, sentence: str) -> None:
        log = sizes.condition(_started(), "0/1", "Eq(s77, 8)", functions)
        found = _found(sizes.fixed(log, "0/1", "s77", "8", [X], asked=functions))
        assert found.kind is kind
        assert sentence in found.why

    def test_the_innermost_line_of_the_user_counts(self) -> None:
        library: sizes.Line = (f"{SITE}/transformers/modeling.py", 90, "forward", "h.view(n, -1)")
        found = _found(sizes.fixed(_started(), "0/1", "s77", "8", [X], lines=[LOOP, library]))
        assert found.frame is not None
        assert found.frame.line == 12

    def test_a_resume_function_has_the_name_of_what_it_resumes(self) -> None:
        resumed = (MODEL, 12, "torch_dynamo_resume_in_forward_at_11", "")
        found = _found(sizes.fixed(_started(), "0/1", "s77", "8", [X], lines=[resumed]))
        assert found.frame is not None
        assert found.frame.function == "forward"
        assert found.why.startswith("Line 12 uses")

    def test_without_the_user_s_code_it_is_said(self) -> None:
        found = _found(sizes.fixed(_started(), "0/1", "s77", "8", [X], lines=None))
        assert found.frame is None
        assert found.why == "Specialized to 8 after tracing, while torch compiled the graph (`x.size(0) == 8`)."


class TestEquals:
    def _log(self) -> Log:
        log = sizes.symbol(_started(), "0/1", "s17", Y)
        log = sizes.condition(log, "0/1", "Eq(s77, s17)", sizes.CHECK, [ADD])
        return sizes.fixed(log, "0/1", "s17", "8", [Y], lines=[LOOP])

    def test_what_is_looked_up_later_leads_back_to_what_fixed_it(self) -> None:
        later: sizes.Line = (MODEL, 40, "forward", "return z")
        found = _found(sizes.fixed(self._log(), "0/1", "s77", "8", [X], reason="find", lines=[later]))
        assert found.frame is not None
        assert found.frame.line == 12
        assert found.why.startswith("x.size(0) == y.size(0) must hold (line 11). `for i in range")

    def test_our_record_tells_that_it_is_a_constant(self) -> None:
        log = sizes.shapes(self._log(), "0/1", symbols=[sizes.known("s77", X, became="8")], conditions=["Eq(s77, s17)"])
        assert _found(log).value == "8"

    def test_one_that_stays_free_has_conditions_only(self) -> None:
        log = sizes.shapes(self._log(), "0/1", symbols=[sizes.known("s77", X)], conditions=["Eq(s77, s17)"])
        assert _found(log).value is None
        assert _found(log).condition == "x.size(0) == y.size(0)"

    def test_a_circle_ends(self) -> None:
        log = sizes.symbol(_started(), "0/1", "s17", Y)
        for text in ("Eq(s77, s17)", "Eq(s17, s77)"):
            sizes.condition(log, "0/1", text)
        sizes.fixed(log, "0/1", "s77", "8", [X], reason="find")
        assert _found(log).value is None


class TestConditions:
    def test_the_user_s_own_branch_goes_first(self) -> None:
        log = sizes.condition(_started(), "0/1", "Ne(s77//2, 1)", sizes.OPERATION)
        found = _found(sizes.condition(log, "0/1", "s77 > 3", sizes.BRANCH))
        assert (found.condition, found.low, found.high, found.reason) == ("x.size(0) > 3", 4, None, "s77 > 3")
        assert found.why == "The graph contains the branch that `if x.shape[0] > 3:` takes if x.size(0) > 3."

    def test_those_that_torch_only_asked_about_are_left_out(self) -> None:
        log = sizes.condition(_started(), "0/1", "s77 > 3")
        assert fixed_at(_raw(sizes.shapes(log, "0/1", conditions=[])), "0/1", X) is None

    def test_a_stride_has_those_of_the_sizes_it_comes_from(self) -> None:
        dim = sizes.dim("4", stride=8, strided="s77")
        log = sizes.condition(_started(), "0/1", "s77 > 3")
        log = sizes.shapes(log, "0/1", tensors=[sizes.tensor("L['y']", dim)], conditions=["s77 > 3"])
        assert _found(log, "L['y'].stride()[0]").condition == "x.size(0) > 3"


@pytest.mark.parametrize(("at", "source"), [("0/0", X), ("0/1", Y), ("7/7", X), ("0/1", "")])
def test_of_what_is_not_known_there_is_nothing(at: str, source: str) -> None:
    assert fixed_at(_raw(_looped()), at, source) is None


def test_an_attempt_that_starts_over_is_forgotten() -> None:
    log = sizes.symbol(_looped().frame("0/1", attempt=1), "0/1", "s77", X)
    assert fixed_at(_raw(log), "0/1", X) is None


def test_symbols_of_no_compilation_are_no_problem() -> None:
    data = {"symbol": "s0", "val": "2", "vr": "", "source": X, "user_stack": [], "stack": []}
    assert _raw(Log().started().record("create_symbol", data)).symbols == {}


@pytest.mark.parametrize("log", ["sizes", "sizes.torch"])
def test_recorded(log: str) -> None:
    raw = CollectedLog()
    for entry in read(DATA / f"{log}.log"):
        raw.add(entry)
    assert fixed_at(raw, "1/0", X) is None  # the first entry is static
    for at, value in (("1/1", "3"), ("1/2", "4")):
        found = fixed_at(raw, at, X)
        assert found is not None
        assert found.frame is not None
        assert (found.value, found.frame.line, found.frame.file) == (value, 24, f"{PROJECT}/sizes.py")
    bound = fixed_at(raw, "0/1", X)
    assert bound is not None
    assert bound.frame is not None
    assert (bound.condition, bound.frame.line) == ("x.size(0) > 3", 16)


def test_a_size_of_a_second_attempt_is_the_same_size() -> None:
    """After a break, Dynamo traces again, and a log that torch alone wrote has each symbol twice."""
    log = sizes.symbol(_started(), "0/1", "s77", X)
    log = sizes.symbol(log, "0/1", "s17", Y)
    (shaped,) = shapes_of(_raw(log))
    assert not shaped.complete
    assert [(each.name, [dim.index for dim in each.dims]) for each in shaped.tensors] == [("x", [0]), ("y", [0])]
