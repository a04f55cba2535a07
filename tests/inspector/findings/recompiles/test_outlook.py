"""Whether recompilations for a cause will stop."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.findings import CacheUse, Cause, CauseKind, Limit, Recompile
from ctrace.inspector.facts.session import Scenario, Session
from ctrace.inspector.facts.trial import UNCHANGED, LaterCalls, Tried
from ctrace.inspector.findings.recompiles.recompile_view import Outlook, Prospect, prospect
from tests.support.helpers import CAUSE_KINDS, MODEL


def members(*values: str | None, kind: str = "size", calls: tuple[tuple[str, int], ...] = (), **more: Any) -> Any:
    """One recompile from each value to the next; `calls` are scenario and number of each."""
    changes = list(pairwise(values))
    during = calls or ((None, None),) * len(changes)
    return [
        (
            Recompile(f"0/{number}", "forward", MODEL, 8, False, (), scenario=scenario, call=call),
            Cause(CauseKind(kind), "x.size(0)", was, now, **more),
        )
        for number, ((was, now), (scenario, call)) in enumerate(zip(changes, during, strict=True), 1)
    ]


def session(used: int = 3, of: int = 8, *, refused: bool = False, **more: Any) -> Session:
    return Session(limit=Limit(functions=(CacheUse("forward", used, of, "0", refused),)), **more)


CALLED = (Scenario("base", 2), Scenario("wide", 4))


class TestOutcomes:
    @pytest.mark.parametrize(
        "kind", ["training_mode", "grad_mode", "autocast", "requires_grad", "none", "duck_shape", "zero_one"]
    )
    @pytest.mark.parametrize("values", [("a", "b"), ("a", "b", "a")])
    def test_pairs_settle(self, kind: str, values: tuple[str, ...]):
        assert prospect(session(), members(*values, kind=kind)).outlook is Outlook.SETTLES

    @pytest.mark.parametrize(
        "kind",
        [
            "dtype",
            "device",
            "layout",
            "stride",
            "dispatch_keys",
            "type",
            "global_state",
            "aliasing",
            "range",
            "key_order",
        ],
    )
    def test_kinds_with_few_values_end(self, kind: str):
        found = prospect(session(), members("a", "b", "c", kind=kind))
        assert found.outlook is Outlook.FINITE
        assert found.why.startswith("one graph for each ")

    @pytest.mark.parametrize(
        ("subject", "outlook"),
        [("(x.size(0) // 8)", Outlook.DIVERGES), ("(x.size(0) % 8)", Outlook.FINITE), ("x.size(0)", Outlook.FINITE)],
    )
    def test_a_number_computed_from_a_size_has_no_limited_number_of_values(self, subject: str, outlook: Outlook):
        changes = [
            (recompile, replace(cause, subject=subject)) for recompile, cause in members("3", "4", "5", kind="range")
        ]
        assert prospect(session(), changes).outlook is outlook

    def test_both_values_of_a_flag_have_a_graph(self):
        found = prospect(session(), members("True", "False", kind="argument_value"))
        assert found == Prospect(Outlook.SETTLES, "both values are compiled")

    def test_a_flag_that_was_none_is_no_pair(self):
        assert prospect(session(), members("True", "2", kind="argument_value")).outlook is Outlook.UNKNOWN

    @pytest.mark.parametrize("values", [("4", "8"), ("4", "8", "12")])
    def test_what_is_left_open_now_settles(self, values: tuple[str, ...]):
        found = prospect(session(), members(*values, is_open=True))
        assert found == Prospect(Outlook.SETTLES, "it is dynamic now, so the new graph takes other values")

    def test_what_the_last_graph_compiled_in_does_not(self):
        first, second = members("4", "8", is_open=True), members("8", "12")
        assert prospect(session(), [*first, *second]).outlook is Outlook.DIVERGES

    @pytest.mark.parametrize("kind", ["size", "attribute_value", "length", "identity", "break_result", "other"])
    def test_one_recompile_does_not_tell(self, kind: str):
        found = prospect(session(), members("4", "8", kind=kind))
        assert found == Prospect(Outlook.UNKNOWN, "each new value recompiles")

    def test_later_calls_of_the_unchanged_model_are_named_beside_what_two_do_not_tell(self):
        tried = Tried(UNCHANGED, None, 1.0, outlook=LaterCalls(10, 8, 7, limit_hit=True))
        found = prospect(session(trials=(tried,)), members("4", "8", kind="attribute_value"))
        ends = "; 10 calls of the model recompile 7 times in all and hit the recompile limit, for this cause or another"
        assert found.why.endswith(ends)

    @pytest.mark.parametrize(
        ("recompiles", "words"),
        [(0, "; 10 calls of the model do not recompile"), (1, "recompile 1 time in all, for this cause or another")],
    )
    def test_later_calls_are_counted_in_words(self, recompiles: int, words: str):
        tried = Tried(UNCHANGED, None, 1.0, outlook=LaterCalls(10, 1 + recompiles, recompiles, limit_hit=False))
        assert words in prospect(session(trials=(tried,)), members("4", "8", kind="attribute_value")).why

    @pytest.mark.parametrize(
        "kind", ["size", "attribute_value", "argument_value", "global_value", "length", "identity"]
    )
    def test_two_tell(self, kind: str):
        assert prospect(session(), members("4", "8", "12", kind=kind)).outlook is Outlook.DIVERGES

    @pytest.mark.parametrize("kind", sorted(CAUSE_KINDS))
    @pytest.mark.parametrize("values", [(None, None), ("1", "2"), (None, None, None), ("1", "2", "3")])
    def test_every_kind_has_one(self, kind: str, values: tuple[str | None, ...]):
        found = prospect(Session(), members(*values, kind=kind))
        assert found.outlook in Outlook
        assert found.why


class TestWhenFull:
    """The outlook of a cause that keeps recompiling."""

    def why(self, of: Session, *calls: tuple[str, int], values: tuple[str, ...] = ("4", "8", "12")) -> str:
        found = prospect(of, members(*values, calls=calls))
        assert found.outlook is Outlook.DIVERGES
        return found.why.removeprefix("each new value recompiles").removeprefix("; ")

    def test_how_many_more_fit(self):
        assert self.why(session(3)) == "5 more fit before the limit of 8"
        assert self.why(session(8)) == "the limit of 8 is reached"

    def test_the_limit_was_hit(self):
        assert self.why(session(8, refused=True)) == "the limit of 8 was hit, and further values run eagerly"

    def test_of_a_cache_that_is_not_known(self):
        assert self.why(Session()) == ""

    def test_the_call_that_will_hit_it(self):
        # calls 1 to 3 filled three of eight entries; 4 to 8 fill the rest, and 9 finds the cache full
        every_call = session(3, scenarios=(Scenario("base", 3),))
        assert self.why(every_call, ("base", 1), ("base", 2)) == "at this rate call 9 hits the limit of 8"

    def test_calls_of_earlier_scenarios_count(self):
        assert (
            self.why(session(3, scenarios=CALLED), ("wide", 0), ("wide", 1))
            == "at this rate call 10 hits the limit of 8"
        )

    def test_from_one_scenario_to_the_next(self):
        assert (
            self.why(session(3, scenarios=CALLED), ("base", 1), ("wide", 0))
            == "at this rate call 9 hits the limit of 8"
        )

    def test_a_full_cache_is_hit_by_the_next_call(self):
        assert (
            self.why(session(8, scenarios=CALLED), ("wide", 2), ("wide", 3))
            == "at this rate call 7 hits the limit of 8"
        )

    @pytest.mark.parametrize(
        "calls",
        [
            (("base", 1), ("wide", 2)),
            (("wide", 1), ("wide", 1)),
            (("base", 1), ("gone", 0)),
            (("gone", 0), ("gone", 1)),
        ],
        ids=["gap", "same", "one-unknown", "unknown"],
    )
    def test_no_call_is_told_where_calls_in_between_did_not_compile(self, calls: tuple[tuple[str, int], ...]):
        assert self.why(session(3, scenarios=CALLED), *calls) == "5 more fit before the limit of 8"

    def test_only_the_last_calls_say_the_rate(self):
        calls = ("base", 0), ("wide", 1), ("wide", 2)
        seen = self.why(session(4, scenarios=CALLED), *calls, values=("1", "2", "3", "4"))
        assert seen == "at this rate call 10 hits the limit of 8"
