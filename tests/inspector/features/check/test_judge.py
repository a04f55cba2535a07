"""Judge jobs against the lock and the limits of the policy."""

from datetime import date
from typing import Any

import pytest

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.findings import Cost, Owner
from ctrace.inspector.facts.sites import SiteKind
from ctrace.inspector.features.check.check_model import CheckedState, FindingKind, GateFinding, JobKey, Lock, gravest
from ctrace.inspector.features.check.policy_model import Allow, Count, Limits
from tests.support.gated import GB, TODAY, checked_of, kinds, lock_of, outcome_of, seen_of, site, state_with

ALLOW = Allow("the mask is read once", gb=GB)
NEW = site("y.item()", "model.py::Net.other", "GB0124", cost=Cost(3, 1))
SKIP = site("def forward", kind=SiteKind.SKIP)


def limits(coverage: float | None = None, **most: int) -> Limits:
    return Limits({Count(name): number for name, number in most.items()}, coverage)


def test_what_the_lock_knows_passes() -> None:
    given = state_with(site(), SKIP, eager_ops=2)
    checked = checked_of(seen_of(given), lock_of(given))
    assert (checked.findings, checked.better, checked.is_new) == ((), (), False)
    assert checked.exit is Exit.DONE


def test_without_a_lock_nothing_may_be_wrong() -> None:
    bad = state_with(site(), SKIP, site("x.size(0)", kind=SiteKind.RECOMPILE, gb="size"), limit_hits=1)
    checked = checked_of(seen_of(bad))
    assert kinds(checked) == ["limit"] * 4
    assert not checked.is_new
    assert checked_of(seen_of(state_with(graphs=7, eager_ops=3))).findings == ()


def test_a_model_that_the_lock_does_not_know_is_new_and_held_to_all() -> None:
    checked = checked_of(seen_of(state_with(site())), lock_of(state_with(), JobKey("other.py")))
    assert (kinds(checked), checked.is_new) == (["limit"], True)


def test_other_results_than_in_eager_never_pass_unknown() -> None:
    danger = state_with(site("SCALE", gb="environment", kind=SiteKind.DANGER))
    assert kinds(checked_of(seen_of(danger))) == ["new-site"]
    assert kinds(checked_of(seen_of(danger), lock_of(state_with()))) == ["new-site"]
    assert kinds(checked_of(seen_of(danger), lock_of(danger))) == []
    assert kinds(checked_of(seen_of(danger), allow=[Allow("", gb="environment")])) == []


def test_a_break_that_the_author_wants_passes_a_new_model_and_not_the_lock() -> None:
    wanted = state_with(site(kind=SiteKind.DISABLED))
    assert kinds(checked_of(seen_of(wanted))) == []
    assert kinds(checked_of(seen_of(wanted), lock_of(state_with()))) == ["new-site"]


def test_a_known_site_that_happens_more_often_is_worse_and_less_often_better() -> None:
    lock = lock_of(state_with(site(times=2)))
    (found,) = checked_of(seen_of(state_with(site(times=3))), lock).findings
    assert (found.kind, found.was, found.now) == (FindingKind.MORE_TIMES, 2, 3)
    assert checked_of(seen_of(state_with(site(times=1))), lock).better == (
        "GB0059 model.py::Net.forward: ×1, no longer ×2",
    )


@pytest.mark.parametrize(("was", "now", "found"), [(2, 2, []), (2, 1, []), (2, 3, ["more"])])
def test_counts_are_compared_with_the_lock(was: int, now: int, found: list[str]) -> None:
    assert kinds(checked_of(seen_of(state_with(graphs=now)), lock_of(state_with(graphs=was)))) == found


def test_a_count_that_the_lock_does_not_have_passes() -> None:
    assert kinds(checked_of(seen_of(state_with(eager_ops=9, kernels=9)), lock_of(state_with()))) == []


def test_a_count_that_the_lock_has_must_be_measured() -> None:
    lock = lock_of(state_with(eager_ops=0))
    assert kinds(checked_of(seen_of(state_with()), lock)) == ["not-measured"]
    elsewhere = seen_of(state_with(), job=JobKey("model.py", "rank 0"), known_as=JobKey("model.py"))
    assert kinds(checked_of(elsewhere, lock)) == []
    assert kinds(checked_of(seen_of(state_with(), limits(eager_ops=0)), lock)) == ["not-measured"]


@pytest.mark.parametrize(
    ("two", "one", "limit", "needed"),
    [
        (
            state_with(cuda_graph_skips=2),
            state_with(cuda_graph_skips=1),
            limits(cuda_graph_skips=1),
            "reduce-overhead",
        ),
        (
            state_with(cuda_graph_rerecordings=2),
            state_with(cuda_graph_rerecordings=1),
            limits(cuda_graph_rerecordings=1),
            "--from-trace",
        ),
    ],
)
def test_a_limit_of_cuda_graphs_holds_or_says_what_it_needs(
    two: CheckedState, one: CheckedState, limit: Limits, needed: str
) -> None:
    assert kinds(checked_of(seen_of(two, limit), Lock())) == ["limit"]
    assert kinds(checked_of(seen_of(one, limit), Lock())) == []
    (found,) = checked_of(seen_of(state_with(), limit), Lock()).findings
    assert str(found.kind) == "not-measured"
    assert needed in found.todo


def test_a_new_site_stands_for_the_graphs_and_ops_that_it_costs_and_for_nothing_else() -> None:
    lock = lock_of(state_with(graphs=1, eager_ops=0))
    lock.sections["2.13"][JobKey("model.py")].counts[Count.KERNELS] = 3  # type: ignore[index]
    checked = checked_of(seen_of(state_with(NEW, graphs=2, eager_ops=3, kernels=4)), lock)
    assert kinds(checked) == ["new-site", "more"]
    assert [each.count for each in checked.findings] == [None, Count.KERNELS]
    assert checked.findings[0].what == "+1 GB0124 model.py::Net.other"


def test_all_that_is_wrong_is_said() -> None:
    lock = lock_of(state_with(site(times=1)))
    given = state_with(site(times=2), NEW, SKIP, graphs=9)
    doubt = GateFinding(FindingKind.DOUBT, "sources disagree")
    checked = checked_of(seen_of(given, limits(95, breaks=1, kernels=0), doubts=(doubt,)), lock)
    assert kinds(checked) == [
        "doubt", "new-site", "new-site", "more-times", "limit", "not-measured", "not-measured",
    ]  # fmt: skip
    assert checked.exit is Exit.UNTRUSTED


@pytest.mark.parametrize(("now", "found"), [(2, []), (3, ["limit"])])
def test_limits_hold_with_a_lock_and_without(now: int, found: list[str]) -> None:
    for lock in (Lock(), lock_of(state_with(graphs=now))):
        assert kinds(checked_of(seen_of(state_with(graphs=now), limits(graphs=2)), lock)) == found


def test_a_limit_lets_new_sites_pass_with_all_that_they_cost() -> None:
    lock = lock_of(state_with(site(), graphs=2, eager_ops=1))
    given = state_with(site(), NEW, graphs=3, eager_ops=4)
    assert kinds(checked_of(seen_of(given, limits(breaks=2)), lock)) == []
    assert kinds(checked_of(seen_of(given, limits(breaks=1)), lock)) == ["new-site", "limit"]
    assert kinds(checked_of(seen_of(given), lock)) == ["new-site"]
    assert kinds(checked_of(seen_of(state_with(site(), NEW, graphs=4, eager_ops=4), limits(breaks=2)), lock)) == [
        "more"
    ]


def test_a_limit_of_one_kind_lets_no_other_pass() -> None:
    lock = lock_of(state_with())
    most = limits(breaks=5)
    for other in (SKIP, site(owner=Owner.TORCH), site(kind=SiteKind.RECOMPILE), site(kind=SiteKind.DANGER)):
        assert kinds(checked_of(seen_of(state_with(other), most), lock)) == ["new-site"]


def test_a_limit_that_the_lock_is_beyond_is_said_in_one_line() -> None:
    given = state_with(site(), NEW)
    (found,) = checked_of(seen_of(given, limits(breaks=1)), lock_of(given)).findings
    assert (found.what, found.was, found.now) == ("graph breaks", 1, 2)


def test_the_same_statement_twice_is_two_breaks_for_a_limit() -> None:
    twice = state_with(site(times=2, places=2), breaks=2)
    assert kinds(checked_of(seen_of(twice, limits(breaks=1)))) == ["limit"]
    assert kinds(checked_of(seen_of(twice, limits(breaks=2)))) == []


def test_recompiles_are_limited_one_by_one() -> None:
    often = state_with(site(kind=SiteKind.RECOMPILE, times=3), recompiles=3)
    assert kinds(checked_of(seen_of(often, limits(recompiles=2)))) == ["limit"]
    assert kinds(checked_of(seen_of(often, limits(recompiles=3)))) == []


@pytest.mark.parametrize(("coverage", "found"), [(90.0, []), (89.9, ["limit"]), (None, ["not-measured"])])
def test_coverage_has_a_least(coverage: float | None, found: list[str]) -> None:
    assert kinds(checked_of(seen_of(state_with(coverage=coverage), limits(90)))) == found


def test_what_did_not_end_is_not_blamed_for_what_it_did_not_measure() -> None:
    failed = GateFinding(FindingKind.FAILED, "it raises")
    checked = checked_of(seen_of(state_with(), limits(90, kernels=0), has_ended=False, doubts=(failed,)))
    assert kinds(checked) == ["failed"]


@pytest.mark.parametrize("kind", ["failed", "nothing-compiled", "doubt"])
def test_what_cannot_be_trusted_is_never_better(kind: str) -> None:
    doubt = GateFinding(FindingKind(kind), "")
    checked = checked_of(seen_of(state_with(graphs=0), doubts=(doubt,)), lock_of(state_with(site())))
    assert checked.better == ()


def test_allowed_sites_pass_and_do_not_count() -> None:
    given = state_with(site(), SKIP)
    for lock in (Lock(), lock_of(state_with())):
        checked = checked_of(seen_of(given, limits(breaks=0, skipped=0)), lock, [ALLOW])
        assert checked.findings == ()
        assert [entry for _, entry in checked.allowed] == [ALLOW, ALLOW]


def test_an_allowed_site_lets_no_more_graphs_pass_than_it_costs() -> None:
    lock = lock_of(state_with(graphs=1, eager_ops=0))
    costly = site(cost=Cost(2, 1))
    assert kinds(checked_of(seen_of(state_with(costly, graphs=2, eager_ops=2)), lock, [ALLOW])) == []
    assert kinds(checked_of(seen_of(state_with(costly, graphs=3, eager_ops=3)), lock, [ALLOW])) == ["more", "more"]


def test_an_allowed_site_takes_no_place_in_the_lock_from_another() -> None:
    lock = lock_of(state_with(site("print(x)")))
    allowed, edited = site("print('allowed')"), site("print(x + 1)")
    entry = Allow("", text="print('allowed')")
    assert kinds(checked_of(seen_of(state_with(allowed, edited)), lock, [entry])) == []


def test_an_allowed_site_that_the_lock_has_is_not_said_to_be_gone() -> None:
    checked = checked_of(seen_of(state_with(site())), lock_of(state_with(site())), [ALLOW])
    assert checked.better == ()


@pytest.mark.parametrize("day", [date(2026, 6, 30), TODAY])
def test_an_entry_that_expired_lets_pass_what_the_lock_knows_only(day: date) -> None:
    entry = Allow("", gb=GB, expires=date(2026, 6, 30))
    parts: Any = {"today": day}
    given = state_with(site())
    assert kinds(checked_of(seen_of(given), lock_of(given), [entry], **parts)) == []
    found = kinds(checked_of(seen_of(given), lock_of(state_with()), [entry], **parts))
    assert found == ([] if day == date(2026, 6, 30) else ["new-site"])


def test_a_lock_of_other_versions_says_so_once_and_judges_by_limits_alone() -> None:
    outcome = outcome_of(seen_of(state_with(site(), torch="2.14")), lock_of(state_with()))
    assert kinds(outcome) == ["no-section"]
    assert outcome.findings[0].what == "ctrace.lock has no section for torch 2.14, only for 2.13"
    assert kinds(outcome.checked[0]) == []
    assert outcome.exit is Exit.USAGE


def test_a_lock_of_a_newer_torch_says_in_one_line_why_an_older_one_recompiles_more() -> None:
    outcome = outcome_of(seen_of(state_with(site(), torch="2.12")), lock_of(state_with()))
    assert [note for note in outcome.notes if "2.12" in note] == [
        "torch 2.12 may compile otherwise than 2.13: before 2.13, AOT backends specialize on a dynamic float that a"
        " tensor op uses in an expression, such as `x * (1 / s)`"
    ]


@pytest.mark.parametrize("torch", ["2.13", "git", "2.16"])
def test_nothing_is_said_of_a_torch_that_the_lock_has_or_that_nobody_knows(torch: str) -> None:
    outcome = outcome_of(seen_of(state_with(site(), torch=torch)), lock_of(state_with()))
    assert [note for note in outcome.notes if "otherwise" in note] == [
        note for note in outcome.notes if torch == "2.16" and "from 2.14" in note
    ]


def test_exit_codes_stand_in_their_order() -> None:
    ordered = [
        (FindingKind.WRONG, Exit.USAGE), (FindingKind.CRASHED, Exit.PROGRAM), (FindingKind.DOUBT, Exit.UNTRUSTED),
        (FindingKind.MORE, Exit.WORSE),
    ]  # fmt: skip
    for at, (_, code) in enumerate(ordered):
        assert gravest(tuple(GateFinding(kind, "") for kind, _ in reversed(ordered[at:]))) is code
    assert gravest(()) is Exit.DONE


def test_wrong_numbers_never_pass_unknown_and_stay_in_the_lock_if_nobody_looks() -> None:
    culprit = site("h = torch.relu(h)", gb="float32", kind=SiteKind.CULPRIT)
    wrong, right, unseen = state_with(culprit, culprits=1), state_with(culprits=0), state_with()
    assert kinds(checked_of(seen_of(wrong))) == ["new-site"]
    assert kinds(checked_of(seen_of(wrong), lock_of(unseen))) == ["new-site"]
    assert kinds(checked_of(seen_of(wrong), lock_of(right))) == ["new-site"]
    assert kinds(checked_of(seen_of(wrong), lock_of(wrong))) == []
    other_dtype = site("h = torch.relu(h)", gb="bfloat16", kind=SiteKind.CULPRIT)
    assert kinds(checked_of(seen_of(state_with(other_dtype, culprits=1)), lock_of(wrong))) == ["new-site"]
    better = checked_of(seen_of(right), lock_of(wrong))
    assert (kinds(better), len(better.better)) == ([], 1)
    not_looked = checked_of(seen_of(unseen), lock_of(wrong))
    assert (kinds(not_looked), not_looked.better) == ([], ())
    assert not_looked.state is not None
    assert any("were not compared" in each for each in not_looked.state.notes)


def test_a_limit_of_culprits_needs_a_comparison() -> None:
    found = checked_of(seen_of(state_with(), limits(culprits=0)))
    assert kinds(found) == ["not-measured"]
    assert "accuracy: true" in found.findings[0].todo
