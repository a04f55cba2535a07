"""Guards that Inductor adds to graphs with symbolic sizes: recorded, left out, and missing in locks of an older
ctrace."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Problem
from ctrace.inspector.facts.sites import SiteKind
from ctrace.inspector.facts.target_gpu import NOT_REAL
from ctrace.inspector.features.check.check_model import CheckedState, CheckJob, SeenJob
from ctrace.inspector.features.check.lock_file import lock_text
from ctrace.inspector.features.check.ratchet import updated
from ctrace.inspector.runs.capture_request import Options
from tests.support.gated import (
    MODEL,
    ROOT,
    checked_of,
    kinds,
    lock_of,
    outcome_of,
    seen_of,
    session_of,
    site,
    state,
    state_with,
)

SIZE = Cause(CauseKind.SIZE, "x.size(2)", was="48", now="64")
AGAIN = site("x.size(2)", gb="size", kind=SiteKind.RECOMPILE, by_inductor=True)
USERS = site("self.step", gb="attribute_value", kind=SiteKind.RECOMPILE)


def again(*causes: Cause, expected: bool = False) -> Recompile:
    """Return a recompilation whose call failed both entries."""
    return Recompile("0/2", "forward", f"{ROOT}/model.py", 1, expected, causes, distances={"0/0": 1, "0/1": 1})


def without(given: CheckedState) -> SeenJob:
    """Return a job that ran without lowering graphs for guards."""
    return SeenJob(CheckJob(MODEL, "model.py", Options(trace_only=True, inductor_guards=False)), given)


@pytest.mark.parametrize(
    ("guards", "causes", "by_inductor"),
    [
        ({"0/1": ("Eq(s0, 48)",)}, [SIZE], True),
        ({"0/1": ("Eq(s0, 48)",)}, [Cause(CauseKind.ATTRIBUTE_VALUE, "self.step")], False),
        ({"0/1": ()}, [SIZE], False),
        ({"0/1": None}, [SIZE], False),
        ({"7/0": ("Eq(s0, 48)",)}, [SIZE], False),
        ({}, [SIZE], False),
    ],
)
def test_a_recompile_is_inductors_where_it_added_guards_to_an_entry(
    guards: dict[str, tuple[str, ...] | None], causes: list[Cause], by_inductor: bool
) -> None:
    session = session_of("def forward(x): ...", recompiles=(again(*causes),), inductor_guards=guards)
    given = state(session)
    assert ([each.by_inductor for each in given.sites], given.by_inductor) == ([by_inductor], by_inductor)


def test_a_graph_of_the_warm_up_may_be_inductors_too() -> None:
    session = session_of("", recompiles=(again(SIZE, expected=True),), inductor_guards={"0/1": ("Eq(s0, 48)",)})
    given = state(session)
    assert (given.sites, given.by_inductor) == ((), True)


def test_what_an_old_lock_cannot_have_is_no_regression_in_words_and_does_not_hold() -> None:
    now = replace(state_with(AGAIN, graphs=3), by_inductor=True)
    (found,) = checked_of(seen_of(now), lock_of(state_with(graphs=2))).findings
    assert found.by_inductor
    assert "since it lowers graphs with symbolic sizes" in found.todo
    assert "ctrace check --update" in found.todo


def test_another_graph_of_the_warm_up_is_explained_so_too() -> None:
    now = replace(state_with(graphs=3), by_inductor=True)
    (found,) = checked_of(seen_of(now), lock_of(state_with(graphs=2))).findings
    assert (str(found.kind), found.by_inductor) == ("more", True)


def test_what_the_user_changed_is_a_regression_as_ever() -> None:
    now = replace(state_with(AGAIN, USERS, graphs=4), by_inductor=True)
    found = checked_of(seen_of(now), lock_of(state_with(AGAIN, graphs=3))).findings
    assert [(each.what, each.by_inductor, each.todo) for each in found] == [
        ("+1 recompile (attribute_value) model.py::Net.forward", False, "")
    ]
    plain = checked_of(seen_of(state_with(graphs=3)), lock_of(state_with(graphs=2))).findings
    assert [(each.by_inductor, each.todo) for each in plain] == [(False, "")]


def test_a_model_without_a_lock_has_nothing_to_update() -> None:
    now = replace(state_with(AGAIN, graphs=3), by_inductor=True)
    found = checked_of(seen_of(now)).findings
    assert [(str(each.kind), each.by_inductor) for each in found] == [("limit", False)]


def test_a_lock_has_the_same_text_whether_graphs_were_lowered_or_not() -> None:
    plain = state_with(graphs=2)
    seen = [plain, replace(plain, by_inductor=True), replace(plain, not_lowered=2)]
    texts = {lock_text(updated(outcome_of(seen_of(each)))) for each in seen}
    assert len(texts) == 1


def test_what_was_left_out_is_a_note_and_lets_the_check_hold() -> None:
    outcome = outcome_of(without(replace(state_with(graphs=2), not_lowered=2)))
    assert (outcome.exit, outcome.inductor_guards, kinds(outcome)) == (Exit.DONE, False, [])
    assert outcome.notes[0].endswith("are not recorded: recompilations that they cause are not shown")
    assert outcome.notes[1] == (
        "model.py: 2 graphs with symbolic sizes were not lowered; ctrace explain may show more recompilations"
    )


def test_without_symbolic_sizes_nothing_can_be_missing() -> None:
    outcome = outcome_of(without(state_with()))
    assert not outcome.inductor_guards
    assert len(outcome.notes) == 1
    assert outcome.notes[0].endswith("no graph has symbolic sizes, so none is missing")


def test_one_job_that_left_them_out_is_enough() -> None:
    other = replace(state_with(), job=replace(MODEL, scenario="other"))
    assert not outcome_of([without(state_with()), seen_of(other)]).inductor_guards
    assert outcome_of([seen_of(state_with()), seen_of(other)]).inductor_guards


def test_values_that_are_not_real_are_a_note() -> None:
    what = f"values after aten.histc.default {NOT_REAL} for it, so it gave zeros"
    outcome = outcome_of(seen_of(state(session_of("", problems=(Problem(what), Problem("another"))))))
    assert outcome.notes == (f"model.py: {what}",)
    assert outcome.exit is Exit.DONE
