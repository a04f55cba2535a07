"""Which breaks cost most, and what they look like in the source."""

from typing import Any

import pytest
from msgspec import structs

from ctrace.inspector.facts.findings import Break, Cost, Frame, Owner, Skip
from ctrace.inspector.facts.session import Coverage, Function, Graph, Session
from ctrace.inspector.findings.breaks.break_view import by_ops_left, lonely_skips, never_compiled, ranked, unclaimed_ops
from tests.support.helpers import MODEL
from tests.support.sessions import bare_break

GRAPH = Graph("0/0", "forward", MODEL, 8, 2)


def broken(line: int = 10, ops: int | None = None, graphs: int = 0, times: int = 1, owner: Owner = Owner.USER) -> Break:
    """A break of `forward` with a cost."""
    paths = ((Frame(MODEL, 50, "<module>"), Frame(MODEL, line, "forward")),)
    return bare_break(line=line, owner=owner, times=times, paths=paths, cost=Cost(ops, graphs))


def skipped(function: str = "forward", cause: int | None = None, ops: int | None = None, graphs: int = 0) -> Skip:
    return Skip(function, MODEL, 8, "", cause, cost=Cost(ops, graphs))


def lines(session: Session, owner: Owner | None = None) -> list[int]:
    return [each.at.line for each in ranked(session, owner)]


class TestRanking:
    @pytest.mark.parametrize(
        "breaks",
        [
            (broken(1, ops=2), broken(2, ops=9), broken(3, ops=5)),
            (broken(1, ops=2, graphs=1), broken(2, ops=9), broken(3, ops=2, graphs=4)),
            (broken(1, graphs=1, times=2), broken(2, graphs=1, times=9), broken(3, graphs=1, times=3)),
            (broken(1, ops=2, graphs=9, times=9), broken(2, ops=3), broken(3, ops=2, graphs=9, times=10)),
            (broken(1, ops=None), broken(2, ops=1), broken(3, ops=0, graphs=1)),
        ],
        ids=["ops", "graphs", "times", "ops first", "not measured"],
    )
    def test_the_costliest_goes_first(self, breaks: tuple[Break, ...]):
        assert lines(Session(breaks=breaks)) == [2, 3, 1]

    def test_of_equals_the_first_that_was_met_goes_first(self):
        assert lines(Session(breaks=(broken(7), broken(3), broken(5)))) == [7, 3, 5]

    def test_what_a_break_left_in_eager_is_a_cost_of_it(self):
        session = Session(
            breaks=(broken(1, ops=5, graphs=1), broken(2, ops=1, graphs=1)),
            skips=(skipped("f", 1, ops=4, graphs=1), skipped("g", ops=100), skipped("h", 1, ops=2)),
        )
        worst, other = ranked(session)
        assert (worst.at.line, worst.cost) == (2, Cost(7, 2))
        assert [skip.function for skip in worst.skips] == ["f", "h"]
        assert (other.cost, other.skips) == (Cost(5, 1), ())

    def test_a_cost_that_was_not_measured_leaves_the_sum_so(self):
        (only,) = ranked(Session(breaks=(broken(ops=None, graphs=1),), skips=(skipped(cause=0, ops=4, graphs=2),)))
        assert only.cost == Cost(None, 3)

    @pytest.mark.parametrize(
        ("owner", "found"), [(None, [3, 2, 1]), (Owner.USER, [3, 1]), (Owner.LIBRARY, [2]), (Owner.TORCH, [])]
    )
    def test_those_of_one_owner(self, owner: Owner | None, found: list[int]):
        breaks = (broken(1, ops=1), broken(2, ops=2, owner=Owner.LIBRARY), broken(3, ops=3))
        assert lines(Session(breaks=breaks), owner) == found

    def test_of_one_owner_each_keeps_its_own_skips(self):
        breaks = (broken(1, owner=Owner.TORCH), broken(2))
        (only,) = ranked(Session(breaks=breaks, skips=(skipped("f", 0), skipped("g", 1))), Owner.USER)
        assert [skip.function for skip in only.skips] == ["g"]


def test_skips_without_a_break():
    session = Session(breaks=(broken(),), skips=(skipped("f", 0), skipped("g")))
    assert [skip.function for skip in lonely_skips(session.skips)] == ["g"]


class TestNeverCompiled:
    FUNCTION = Function("Net.forward", MODEL, 8, compiled_for_itself=True)

    def names(self, session: Session) -> list[str]:
        return [each.name for each in never_compiled(session)]

    def partial(self, *functions: Function, **parts: Any) -> Session:
        """Other functions got a graph."""
        return structs.replace(Session(graphs=(GRAPH,), functions=functions, skips=(skipped("g"),)), **parts)

    def test_one_that_was_left_in_eager(self):
        assert self.names(self.partial(self.FUNCTION, skips=(skipped(),))) == ["Net.forward"]

    def test_one_that_a_break_is_in(self):
        assert self.names(self.partial(self.FUNCTION, breaks=(broken(),))) == ["Net.forward"]

    def test_one_of_the_same_name_in_another_file(self):
        other = structs.replace(self.FUNCTION, file="other.py")
        assert self.names(self.partial(other, skips=(skipped(),), breaks=(broken(),))) == []

    def test_one_with_a_graph(self):
        assert self.names(self.partial(structs.replace(self.FUNCTION, graphs=1), skips=(skipped(),))) == []

    def test_one_that_was_called_by_another(self):
        helper = structs.replace(self.FUNCTION, compiled_for_itself=False)
        assert self.names(self.partial(helper, skips=(skipped(),))) == []

    def test_one_that_was_only_passed_through(self):
        assert self.names(self.partial(self.FUNCTION)) == []

    def test_where_nothing_was_compiled_that_is_said_elsewhere(self):
        assert self.names(self.partial(self.FUNCTION, skips=(skipped(),), graphs=())) == []


def test_functions_by_ops_left():
    coverages = {"a": Coverage(5, 4), "b": Coverage(9, 2), "c": Coverage(3, 3), "d": Coverage(4), "e": Coverage()}
    functions = tuple(Function(name, MODEL, 8, coverage=coverage) for name, coverage in coverages.items())
    assert [each.name for each in by_ops_left(functions)] == ["b", "a"]


@pytest.mark.parametrize(
    ("coverage", "left"), [(Coverage(20, 10), 3), (Coverage(20, 13), 0), (Coverage(20, 20), 0), (Coverage(20), 0)]
)
def test_ops_that_no_break_and_no_skip_accounts_for(coverage: Coverage, left: int):
    session = Session(coverage=coverage, breaks=(broken(ops=5), broken(ops=None)), skips=(skipped(ops=2),))
    assert unclaimed_ops(session) == left


def test_functions_left_in_eager_by_a_rule_are_ranked_too():
    session = Session(skips=(skipped("f"), skipped("g", ops=2), skipped("h", cause=0, ops=9), skipped("i", ops=5)))
    assert [skip.function for skip in lonely_skips(session.skips)] == ["i", "g", "f"]
