"""What the run with a change must show: the finding gone, or for a setting, fewer graphs; and no new place that breaks."""

from collections import Counter

from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts
from ctrace.inspector.facts.diagnosis import Effect
from ctrace.inspector.facts.session import Failure, FailurePhase, Session
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.features.fix.repairs.proving import ChangeToProve, _graph_checks, keys_of
from tests.support.sessions import PARTIAL

FIRST = next(key for key in keys_of(PARTIAL) if key[0] == "break")
RENAMED = replace(PARTIAL, breaks=tuple(replace(each, gb=("GB9999",)) for each in PARTIAL.breaks))
FEWER = replace(RENAMED, graphs=PARTIAL.graphs[:1])


def failed(after: Session, *, may_leave: bool) -> list[str]:
    change = ChangeToProve(Trial(), Counter([FIRST]), may_leave=may_leave)
    effect = Effect(counts(PARTIAL), counts(after))
    return [each.name for each in _graph_checks(PARTIAL, after, change, effect) if not each.passed]


def test_a_setting_that_saves_graphs_may_leave_its_finding():
    assert len(PARTIAL.graphs) > 1
    assert failed(FEWER, may_leave=True) == []
    assert failed(FEWER, may_leave=False) == ["finding_gone"]


def test_a_break_that_is_only_renamed_saves_nothing():
    assert failed(RENAMED, may_leave=True) == ["finding_gone", "nothing_new"]


def test_a_place_that_was_fine_must_not_break():
    extra = replace(PARTIAL.breaks[0], source="elsewhere(x)", line=99)
    assert "nothing_new" in failed(replace(FEWER, breaks=(*FEWER.breaks, extra)), may_leave=True)


def test_what_follows_where_the_run_raised_is_not_new():
    raised = replace(PARTIAL, breaks=(), failure=Failure(FailurePhase.RUN, "BackendCompilerFailed", "no view"))
    change = ChangeToProve(Trial(), Counter([("failure", "BackendCompilerFailed")]))

    def passed(after: Session) -> dict[str, bool]:
        effect = Effect(counts(raised), counts(after))
        return {each.name: each.passed for each in _graph_checks(raised, after, change, effect)}

    assert PARTIAL.failure is None
    assert passed(PARTIAL)["nothing_new"]
    still = replace(PARTIAL, failure=Failure(FailurePhase.RUN, "RuntimeError", "another"))
    assert not passed(still)["nothing_new"]
