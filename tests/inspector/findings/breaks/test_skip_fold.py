"""The user's functions that run eagerly, each with its rule."""

import textwrap
from typing import Any

import pytest

from ctrace.inspector.facts.findings import Skip
from ctrace.inspector.facts.session import Failure, FailurePhase
from ctrace.inspector.knowledge.advice import entries
from tests.support.helpers import MODEL, SITE, Log

LIBRARY = f"{SITE}/einops/einops.py"
CALLERS = [(MODEL, 50, "<module>"), (MODEL, 10, "forward")]
"""The callers of a helper of `forward`."""


def skips(log: Log, failure: Failure | None = None) -> list[tuple[str, str]]:
    return [(skip.function, skip.rule) for skip in log.session(failure).skips]


class TestGivenUp:
    """Functions that Dynamo failed to compile, without a break report."""

    def skipped(self, at: str = "0/0", **values: Any) -> Log:
        return Log().started().gave_up(at, **{"fail_reason": "no such thing\nmore of it", **values})

    def test_a_failed_compilation_is_a_skip(self):
        (skip,) = self.skipped().session().skips
        assert (skip.function, skip.file, skip.line, skip.break_index) == ("forward", MODEL, 8, None)
        assert skip.reason.endswith("Torch says: no such thing more of it")
        assert skip.fix

    def test_what_the_program_caught_is_told_from_what_torch_suppressed(self):
        assert skips(self.skipped()) == [("forward", "raised")]
        assert skips(self.skipped().left_alone(rule="failed")) == [("forward", "failed")]
        assert skips(self.skipped().left_alone("helper", 31, rule="failed")) == [("forward", "raised")]

    @pytest.mark.parametrize(("suppresses", "rule"), [(True, "failed"), (False, "thrown"), (None, "unclear")])
    def test_a_log_of_torch_alone_may_have_the_setting(self, suppresses: bool | None, rule: str):
        assert skips(Log().gave_up("0/0", config_suppress_errors=suppresses)) == [("forward", rule)]

    def test_who_got_the_error_is_not_said_to_run_eagerly(self):
        session = Log().gave_up("0/0", config_suppress_errors=False).session()
        assert session.skips[0].outcome == "was not compiled"

    @pytest.mark.parametrize("reason", [None, "", "\n"])
    def test_a_reason_is_never_empty(self, reason: str | None):
        (skip,) = self.skipped(fail_reason=reason).session().skips
        assert skip.reason.endswith("Torch says: torch logs no reason")

    def test_a_function_is_skipped_once(self):
        assert len(skips(self.skipped().gave_up("0/1"))) == 1

    def test_functions_of_one_name_are_told_apart_by_their_line(self):
        assert len(skips(self.skipped().gave_up("1/0", "forward", 30))) == 2

    def test_a_resumed_part_is_named_by_its_function(self):
        assert skips(Log().gave_up("1/0", "torch_dynamo_resume_in_forward_at_12")) == [("forward", "unclear")]

    @pytest.mark.parametrize("file", [LIBRARY, f"{SITE}/torch/nn/functional.py"])
    def test_functions_of_others_are_not_the_users_to_change(self, file: str):
        assert skips(Log().started().gave_up("0/0", "rearrange", 9, file)) == []

    def test_a_function_of_a_library_counts_if_it_runs_ops_itself(self):
        gave_up = Log().started().gave_up("0/0", "rearrange", 9, LIBRARY)
        assert skips(gave_up.ops(5, 2, stacks=[([(LIBRARY, 11, "rearrange")], 2)])) == [("rearrange", "raised")]

    def test_a_failure_of_a_function_that_nobody_names_is_none(self):
        assert skips(Log().metrics("0/0", fail_type="Unsupported")) == []

    def test_a_limit_is_no_skip(self):
        assert skips(Log().compiled("0/0").limit_hit("0/1")) == []

    def test_the_failure_that_ended_the_run_is_no_skip(self):
        assert skips(self.skipped(), Failure(FailurePhase.RUN, "Unsupported", "fullgraph=True")) == []

    def test_another_failure_than_the_skip_leaves_it(self):
        assert len(skips(self.skipped(), Failure(FailurePhase.RUN, "KeyError", "'a'"))) == 1

    def test_only_the_last_failure_ended_the_run(self):
        log = self.skipped().gave_up("1/0", "helper", 30)
        assert skips(log, Failure(FailurePhase.RUN, "Unsupported", "no")) == [("forward", "raised")]

    def test_torch_wraps_the_failure_that_ended_the_run(self):
        failure = Failure(FailurePhase.RUN, "InternalTorchDynamoError", "KeyError: 'a'")
        assert skips(self.skipped(fail_type="KeyError"), failure) == []


class TestBroken:
    """Functions that Dynamo gave up because of a break."""

    def broken(self, body: str, line: int, source: str, carets: str = "", **parts: Any) -> Skip:
        text = f"def forward(x):\n{textwrap.indent(body, '    ')}\n"
        frame = (MODEL, line, "forward", source, *([carets] if carets else []))
        log = Log().listing(text).gave_up("0/0", "forward", 1).breaks("0/0", frames=[frame], **parts)
        (skip,) = log.session().skips
        return skip

    @pytest.mark.parametrize(
        ("head", "rule"),
        [
            ("for v in x:", "loop"),
            ("while x.any():", "loop"),
            ("with self.lock:", "with"),
            ("if self.training:", "unresumable"),
        ],
    )
    def test_the_block_around_decides(self, head: str, rule: str):
        skip = self.broken(f"{head}\n    print(x)", 3, "print(x)")
        assert skip.rule == rule
        assert skip.reason.startswith("The break (line 3) is ")

    def test_a_try_around(self):
        assert self.broken("try:\n    print(x)\nfinally:\n    pass", 3, "print(x)").rule == "try"

    def test_a_comprehension_around(self):
        body = "y = [print(v) for v in x]"
        assert self.broken(body, 2, body, "     ^^^^^^^^").rule == "comprehension"

    def test_the_innermost_block_decides(self):
        assert self.broken("for v in x:\n    with v:\n        print(v)", 4, "print(v)").rule == "with"

    def test_torchs_own_word_on_a_loop_goes_first(self):
        body = "with x:\n    print(x)"
        assert self.broken(body, 3, "print(x)", consequence="graph break in loop").rule == "loop"

    def test_no_block_around(self):
        assert self.broken("print(x)", 2, "print(x)").rule == "unresumable"

    def test_source_that_nobody_has(self):
        assert self.broken("", 2, "print(x)").rule == "unresumable"

    def test_what_to_do_is_that_of_the_break_and_that_of_the_rule(self):
        body = "try:\n    y = x.item()\nfinally:\n    pass"
        skip = self.broken(body, 3, "y = x.item()", "    ^^^^^^^^", gb=("0124",))
        assert skip.fix.endswith("read it after the call. Or move the breaking code out of the try.")

    def test_a_skip_names_the_break_that_caused_it(self):
        log = Log().gave_up("1/0").breaks("0/0", gb=("0124",)).breaks("1/0")
        assert [skip.break_index for skip in log.session().skips] == [1]

    def test_where_the_function_stood_counts_and_not_where_a_helper_broke(self):
        text = "def forward(x):\n    for v in x:\n        helper(v)\n\n\ndef helper(v):\n    print(v)\n"
        frames = [(MODEL, 3, "forward", "helper(v)"), (MODEL, 7, "helper", "print(v)")]
        (skip,) = Log().listing(text).gave_up("0/0", "forward", 1).breaks("0/0", frames=frames).session().skips
        assert (skip.rule, skip.reason[:20]) == ("loop", "The break (line 3) i")

    def test_a_break_in_another_function_of_that_name_says_nothing_of_the_block(self):
        text = "class A:\n  def forward(x):\n    for v in x:\n      print(v)\n\n\ndef forward(x):\n    helper(x)\n"
        frames = [(MODEL, 4, "forward", "print(v)")]
        (skip,) = Log().listing(text).gave_up("0/0", "forward", 7).breaks("0/0", frames=frames).session().skips
        assert (skip.rule, skip.reason[:13]) == ("unresumable", "The break is ")


class TestLeftAlone:
    """Functions that Dynamo did not try."""

    @pytest.mark.parametrize("rule", ["generator", "dispatch_mode", "switched_off"])
    @pytest.mark.parametrize("callers", [[], CALLERS])
    def test_rules_that_leave_tensor_work_in_eager(self, rule: str, callers: list[Any]):
        (skip,) = Log().compiled("0/0").left_alone("helper", 31, rule=rule, callers=callers).session().skips
        assert (skip.function, skip.file, skip.line) == ("helper", MODEL, 31)
        assert (skip.rule, skip.break_index) == (rule, None)
        assert "`helper`" in skip.reason
        assert skip.fix

    @pytest.mark.parametrize("rule", ["no_ops", "no_tensor", "disabled", "excluded", "skipfile"])
    def test_rules_that_count_only_for_the_function_that_was_asked_for(self, rule: str):
        assert skips(Log().left_alone("main", 31, rule=rule, callers=CALLERS[:1])) == [("main", rule)]
        assert skips(Log().compiled("0/0").left_alone("helper", 31, rule=rule, callers=CALLERS)) == []

    def test_whoever_was_left_alone_before_was_asked_for_first(self):
        log = Log().left_alone("forward", 8, rule="no_ops").left_alone("helper", 31, rule="no_ops", callers=CALLERS)
        assert skips(log) == [("forward", "no_ops")]

    def test_a_function_that_calls_itself_was_asked_for(self):
        callers = [*CALLERS[:1], (MODEL, 33, "main")]
        assert skips(Log().left_alone("main", 31, rule="no_ops", callers=callers)) == [("main", "no_ops")]

    def test_a_resumed_caller_is_one(self):
        callers = [(MODEL, 10, "torch_dynamo_resume_in_forward_at_10")]
        assert skips(Log().compiled("0/0").left_alone("helper", 31, rule="no_ops", callers=callers)) == []

    @pytest.mark.parametrize("rule", ["started", "constructor", "failed", "a word of another ctrace"])
    def test_other_rules_take_nothing_away_or_are_told_elsewhere(self, rule: str):
        assert skips(Log().left_alone(rule=rule)) == []

    @pytest.mark.parametrize(
        ("rule", "found"), [("no_tensor", "hidden_tensor"), ("excluded", "excluded"), ("skipfile", "skipfile")]
    )
    @pytest.mark.parametrize("callers", [CALLERS[:1], CALLERS])
    def test_ops_may_run_all_the_same(self, rule: str, found: str, callers: list[Any]):
        log = Log().compiled("0/0").left_alone("helper", 31, rule=rule, callers=callers)
        assert skips(log.ops(5, 2, stacks=[([*callers, (MODEL, 33, "helper")], 2)])) == [("helper", found)]

    def test_a_function_with_a_graph_does_not_run_eagerly_where_a_call_has_nothing_to_compile(self):
        """As where the first call fills a cache and later ones return what it holds."""
        filled = Log().compiled("0/0").left_alone("forward", 8, rule="no_ops")
        assert skips(filled) == []
        assert skips(Log().compiled("0/0").left_alone("helper", 31, rule="no_ops")) == [("helper", "no_ops")]

    def test_a_generator_without_ops_is_none(self):
        """As where a forward with nothing to compile runs `tuple(layer(x) for layer in self)` of layers that do nothing."""
        log = (
            Log().left_alone("forward", 8, rule="no_ops").left_alone("<genexpr>", 31, rule="generator", callers=CALLERS)
        )
        assert skips(log.ops(0, 0)) == [("forward", "no_ops")]

    def test_a_generator_whose_layers_run_ops_is_one(self):
        log = Log().left_alone("layers", 31, rule="generator", callers=CALLERS)
        stack = [*CALLERS, (MODEL, 33, "layers"), (MODEL, 41, "other")]
        assert skips(log.ops(5, 2, stacks=[(stack, 2)])) == [("layers", "generator")]

    def test_ops_that_a_trace_has_not_contradict_that_there_are_none(self):
        log = Log().left_alone("forward", 8, rule="no_ops").ops(1, 1, stacks=[([(MODEL, 10, "forward")], 1)])
        (skip,) = log.session().skips
        assert skip.rule == "traced_away"
        assert skip.fix.startswith("Nothing to compile here")
        assert "runs no tensor operation" not in skip.fix

    @pytest.mark.parametrize("rule", ["no_ops", "disabled"])
    def test_ops_of_other_rules_hide_nothing(self, rule: str):
        log = Log().compiled("0/0").left_alone("helper", 31, rule=rule, callers=CALLERS)
        assert skips(log.ops(5, 2, stacks=[([*CALLERS, (MODEL, 33, "helper")], 2)])) == []

    def test_ops_of_a_function_that_it_calls_are_not_its_own(self):
        log = Log().compiled("0/0").left_alone("helper", 31, rule="no_tensor", callers=CALLERS)
        stack = [*CALLERS, (MODEL, 33, "helper"), (MODEL, 41, "other")]
        assert skips(log.ops(5, 2, stacks=[(stack, 2), ([], 1)])) == []

    @pytest.mark.parametrize("rule", ["generator", "no_ops"])
    def test_with_fullgraph_it_may_be_what_ended_the_run(self, rule: str):
        failure = Failure(FailurePhase.RUN, "RuntimeError", "fullgraph=True")
        assert skips(Log().left_alone(rule=rule, fullgraph=True), failure) == []
        assert skips(Log().left_alone(rule=rule, fullgraph=True)) == [("forward", rule)]
        assert skips(Log().left_alone(rule=rule), failure) == [("forward", rule)]

    @pytest.mark.parametrize("file", [LIBRARY, f"{SITE}/torch/nn/functional.py"])
    def test_functions_of_others_are_not_the_users_to_change(self, file: str):
        assert skips(Log().started().left_alone("rearrange", 9, rule="generator", file=file)) == []

    def test_a_resumed_part_is_that_of_its_function(self):
        assert skips(Log().left_alone("torch_dynamo_resume_in_forward_at_12", rule="generator")) == []

    def test_a_function_is_left_alone_once(self):
        assert skips(Log().left_alone(rule="generator").left_alone(rule="excluded")) == [("forward", "generator")]

    def test_a_failed_try_says_more_than_the_rule(self):
        log = Log().gave_up("0/0").left_alone(rule="generator")
        assert skips(log) == [("forward", "unclear")]


def test_each_rule_with_a_text_is_tested_here():
    given_up = {"failed", "raised", "thrown", "unclear", "loop", "try", "with", "comprehension", "unresumable"}
    left = {"generator", "dispatch_mode", "switched_off"}
    asked_for = {"no_ops", "no_tensor", "disabled", "excluded", "skipfile"}
    assert set(entries("skips")) == given_up | left | asked_for | {"hidden_tensor", "traced_away"}
