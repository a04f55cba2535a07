"""Logs recorded with torch 2.15: reports show the differences of torch 2.14 and 2.15."""

import pytest

from ctrace.inspector.facts.findings import Cause
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.shape_facts import DimKind, DimPolicy
from ctrace.inspector.features.bytecode.bytecode_scene import PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import explained, function_codes
from ctrace.inspector.features.check.check_model import JobKey
from ctrace.inspector.features.check.check_state import state_of
from ctrace.inspector.findings.guard_view import guarded, heads
from ctrace.inspector.findings.shape_view import by_function
from ctrace.inspector.findings.shapes_document import marks
from tests.support.helpers import recorded
from tests.support.places import ROOT

LOGS = ("deferred_constant", "helper_guards", "declared_shapes", "nested_break", "nested_break_on", "static_sources")


def causes(session: Session) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (str(cause.kind), cause.subject, cause.was, cause.now) for each in session.recompiles for cause in each.causes
    ]


@pytest.mark.parametrize("name", LOGS)
def test_nothing_is_unknown_and_no_problem_is_left(name: str) -> None:
    session = recorded(name)
    assert session.environment.torch.startswith("2.15.")
    assert (session.problems, session.unknown) == ((), {})


def test_a_deferred_constant_is_shown_where_it_is_first_computed_with() -> None:
    session = recorded("deferred_constant")
    found = {(cause.subject, _line(session, cause)) for each in session.recompiles for cause in each.causes}
    assert found == {("STEP", "STEP += 1"), ("self.calls", "scale = self.calls + 1")}


def _line(session: Session, cause: Cause) -> str:
    assert cause.file is not None
    assert cause.line is not None
    return session.listings[cause.file].splitlines()[cause.line - 1].strip()


def test_helpers_are_named_for_what_they_check() -> None:
    assert causes(recorded("helper_guards")) == [
        ("length", "items left in items", "3", "2"),
        ("other", "x is a lazy copy", "False", "True"),
        ("aliasing", "x is y", "True", "False"),
    ]


def test_kinds_of_guards_have_torchs_names_also_if_they_run_python() -> None:
    session = recorded("helper_guards")
    kinds = {guard.kind for head in heads(session) for guard in guarded(session, head).guards}
    assert {"COW_TENSOR_MATCH", "LIST_REVERSEITERATOR_LEN", "OBJECT_ALIASING"} <= kinds


@pytest.mark.parametrize("name", LOGS)
def test_the_clock_that_runs_only_with_a_profiler_is_no_branch_of_the_user(name: str) -> None:
    session = recorded(name)
    every = [explained(session, compiled) for function in function_codes(session) for compiled in function.all]
    clocks = [piece.text for each in every for piece in each.pieces if piece.kind is PieceKind.TIMER]
    others = [piece.text for each in every for piece in each.pieces if piece.kind is PieceKind.OTHER]
    assert clocks[:2] == [
        f"{does} torch's clock for loading the inputs, if a profiler runs" for does in ("starts", "stops")
    ]
    assert [piece.text for each in every for piece in each.pieces if "_is_profiler_enabled" in piece.text] == []
    assert others == []


def test_declared_sizes_are_said_to_be() -> None:
    (shaped,) = recorded("declared_shapes").shapes
    dims = [(dim.kind, dim.policy) for dim in shaped.tensors[0].dims]
    assert dims == [(DimKind.UNBACKED, DimPolicy.DECLARED), (DimKind.STATIC, DimPolicy.DECLARED_STATIC)]


def test_sizes_and_integers_that_an_option_keeps_static_are_said_to_be() -> None:
    session = recorded("static_sources")
    assert causes(session) == [
        ("size", "x.size(0)", "4", "5"),
        ("argument_value", "n", "2", "3"),
        ("attribute_value", "settings.n", "2", "3"),
        ("closure_value", "power", "2", "3"),
    ]
    for cause in (each for recompile in session.recompiles for each in recompile.causes):
        assert cause.fix == f"Remove `{cause.subject}` from TORCH_COMPILE_STATIC_SOURCES."
        assert not cause.expected
    policies = [dim.policy for shaped in session.shapes for dim in shaped.tensors[0].dims]
    assert policies == [DimPolicy.LISTED_STATIC, DimPolicy.ALL_DYNAMIC] * 4 + [DimPolicy.LISTED_STATIC] * 2


def test_no_mark_is_offered_for_a_size_that_an_option_keeps_static() -> None:
    session = recorded("static_sources")
    (remark,) = marks(by_function(session), session.environment.torch)
    assert (remark.line, remark.note) == (
        "",
        "x.size(0) of f takes several sizes, and TORCH_COMPILE_STATIC_SOURCES costs a graph for each: "
        "remove it from that list.",
    )


def test_nested_graph_breaks_move_counts_and_no_site() -> None:
    """A lock written without the setting also passes with it: the sites stay the same, and there are fewer graphs."""
    split, nested = recorded("nested_break"), recorded("nested_break_on")
    assert (len(split.graphs), len(nested.graphs)) == (4, 2)
    job = JobKey("model.py", "base", "cpu")
    before, after = (state_of(each, job, ROOT) for each in (split, nested))
    assert [(each.key.causes, each.key.text, each.key.place.rpartition("::")[2]) for each in before.sites] == [
        (each.key.causes, each.key.text, each.key.place.rpartition("::")[2]) for each in after.sites
    ]
    assert len(before.sites) == 1
