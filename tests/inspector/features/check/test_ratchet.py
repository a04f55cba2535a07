"""The updated lock: for cases built by hand, and for any lock and any states."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Cost, Owner
from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import (
    Baseline,
    CheckedState,
    CheckOutcome,
    FindingKind,
    GateFinding,
    JobKey,
    Lock,
    SeenJob,
)
from ctrace.inspector.features.check.policy_model import Allow, Count
from ctrace.inspector.features.check.ratchet import updated
from tests.support.gated import MODEL, checked_of, kinds, lock_of, outcome_of, seen_of, site, state_with
from tests.support.helpers import fuzzing

OLD = Baseline({Count.GRAPHS: 9}, (Known(site("old()").key, 9),))
NEW = site("y.item()", "model.py::Net.other", "GB0124")
FAILED = GateFinding(FindingKind.CRASHED, "it crashed")


def after(
    seen: SeenJob | Sequence[SeenJob], lock: Lock, *, only_improve: bool = False, allow: Iterable[Allow] = ()
) -> Lock:
    return updated(outcome_of(seen, lock, allow), only_improve=only_improve)


def known(lock: Lock, job: JobKey = MODEL, torch: str = "2.13") -> Baseline:
    return lock.sections[torch][job]


def test_an_update_writes_what_there_is_and_nothing_else() -> None:
    given_now = state_with(site(times=2), NEW, graphs=3, eager_ops=4)
    lock = after(seen_of(given_now), lock_of(state_with(site("old()"), graphs=1)))
    counts = {Count.GRAPHS: 3, Count.EAGER_OPS: 4, Count.LIMIT_HITS: 0}
    assert known(lock) == Baseline(counts, (Known(site().key, 2), Known(NEW.key, 1)))
    assert after(seen_of(given_now), lock) == lock
    assert outcome_of(seen_of(given_now), lock).exit == 0


def test_other_sections_and_models_that_did_not_run_stay() -> None:
    lock = Lock({"2.12": {MODEL: OLD, JobKey("gone.py"): OLD}, "2.13": {MODEL: OLD, JobKey("other.py"): OLD}})
    outcome = outcome_of(seen_of(state_with()), lock, is_whole=False)
    new = updated(outcome)
    assert new.sections["2.12"] == lock.sections["2.12"]
    assert known(new, JobKey("other.py")) == OLD


def test_a_first_update_begins_a_section() -> None:
    assert after(seen_of(state_with(site(), torch="2.14")), Lock()).sections.keys() == {"2.14"}


@pytest.mark.parametrize(
    "kind", ["failed", "compile-failed", "crashed", "timeout", "doubt", "nothing-compiled", "wrong"]
)
def test_what_cannot_be_judged_keeps_its_record(kind: str) -> None:
    seen = seen_of(state_with(graphs=0), doubts=(GateFinding(FindingKind(kind), ""),))
    for only_improve in (False, True):
        assert after(seen, Lock({"2.13": {MODEL: OLD}}), only_improve=only_improve).sections == {"2.13": {MODEL: OLD}}
        assert after(seen, Lock(), only_improve=only_improve).sections == {}


def test_what_the_policy_allows_is_left_to_it() -> None:
    entry = Allow("", gb="GB0059")
    for only_improve in (False, True):
        lock = after(seen_of(state_with(site())), lock_of(state_with(site())), only_improve=only_improve, allow=[entry])
        assert known(lock).sites == ()


def test_a_model_that_vanished_is_forgotten_and_not_by_an_improvement() -> None:
    gone = JobKey("gone.py", "train")
    lock = Lock({"2.13": {MODEL: OLD, gone: OLD}, "2.12": {gone: OLD}})
    assert after(seen_of(state_with()), lock).sections["2.13"].keys() == {MODEL}
    assert after(seen_of(state_with()), lock).sections["2.12"].keys() == {gone}
    kept = after(seen_of(state_with()), lock, only_improve=True)
    assert known(kept, gone) == OLD
    assert kinds(outcome_of(seen_of(state_with()), kept)) == ["vanished"]


@pytest.mark.parametrize("only_improve", [False, True])
def test_a_model_that_moved_is_renamed_with_all_its_jobs(only_improve: bool) -> None:
    old, new = (JobKey(f"{folder}/m.py") for folder in ("old", "new"))
    lock = Lock({"2.13": {old: OLD, replace(old, scenario="train"): OLD}, "2.12": {old: OLD}})
    seen = [seen_of(state_with(), job=new), seen_of(state_with(), job=replace(new, scenario="train"), doubts=(FAILED,))]
    found = after(seen, lock, only_improve=only_improve)
    assert found.sections["2.13"].keys() == {new, replace(new, scenario="train")}
    assert known(found, replace(new, scenario="train")) == OLD
    assert known(found, new).sites == ()
    assert found.sections["2.12"] == {old: OLD}


def ranks(*states: CheckedState, doubts: Sequence[tuple[GateFinding, ...]] = ()) -> list[SeenJob]:
    shown = [*doubts, *[()] * len(states)]
    return [
        seen_of(each, job=JobKey("t", f"rank {at}"), known_as=JobKey("t"), doubts=shown[at])
        for at, each in enumerate(states)
    ]


def test_ranks_are_one_job_that_shows_what_any_of_them_shows() -> None:
    both = ranks(state_with(site(times=1), graphs=4), state_with(site(times=3), NEW, graphs=2))
    lock = after(both, Lock())
    assert lock.sections["2.13"].keys() == {JobKey("t")}
    assert known(lock, JobKey("t")).sites == (Known(site().key, 3), Known(NEW.key, 1))
    assert known(lock, JobKey("t")).counts[Count.GRAPHS] == 4
    assert outcome_of(both, lock).exit == 0


@pytest.mark.parametrize("only_improve", [False, True])
def test_where_one_rank_failed_the_record_stays(only_improve: bool) -> None:
    lock = lock_of(state_with(site(), NEW), JobKey("t"))
    both = ranks(state_with(), state_with(site()), doubts=[(FAILED,)])
    assert after(both, lock, only_improve=only_improve) == lock


def test_an_improvement_takes_away_and_adds_nothing() -> None:
    lock = lock_of(state_with(site(times=5), site("old()"), graphs=3))
    now = state_with(site(times=2), NEW, graphs=9, eager_ops=1)
    found = known(after(seen_of(now), lock, only_improve=True))
    assert found.sites == (Known(site().key, 2),)
    assert found.counts == {Count.GRAPHS: 3, Count.EAGER_OPS: 1, Count.LIMIT_HITS: 0}


def test_an_improvement_keeps_the_site_that_was_taken_for_a_known_one() -> None:
    lock = lock_of(state_with(site("print(y)")))
    seen = seen_of(state_with(site("y = g(x)"), site("return g(z)")))
    assert [each.site.key.text for each in checked_of(seen, lock).findings if each.site] == ["return g(z)"]
    assert known(after(seen, lock, only_improve=True)).sites == (Known(site("y = g(x)").key),)


def test_an_improvement_writes_a_new_model_only_where_nothing_holds_it_back() -> None:
    clean = seen_of(state_with(graphs=4), job=JobKey("clean.py"))
    others = [
        seen_of(state_with(site()), job=JobKey("broken.py")),
        seen_of(state_with(limit_hits=1), job=JobKey("full.py")),
        seen_of(state_with(site(kind=SiteKind.DANGER)), job=JobKey("wrong.py")),
    ]
    lock = after([clean, *others], lock_of(state_with()), only_improve=True)
    assert lock.sections["2.13"].keys() == {MODEL, JobKey("clean.py")}


keys = st.builds(
    SiteKey,
    st.sampled_from((SiteKind.BREAK, SiteKind.SKIP, SiteKind.RECOMPILE, SiteKind.DANGER)),
    st.sampled_from((("GB1",), ("GB2",), ("GB1", "GB2"))),
    st.sampled_from(tuple(Owner)),
    st.sampled_from(("a.py::f", "a.py::g", "b.py::f")),
    st.sampled_from(("print(x)", "print(y)", "y = g(x)", "return g(z)", "def f")),
)
times = st.integers(1, 4)
counts = st.dictionaries(
    st.sampled_from((Count.GRAPHS, Count.EAGER_OPS, Count.LIMIT_HITS, Count.KERNELS)), st.integers(0, 5), max_size=4
)
sites = st.lists(
    st.builds(Site, keys, times, cost=st.builds(Cost, st.none() | st.integers(0, 2), st.integers(0, 2))),
    max_size=6,
    unique_by=lambda each: each.key,
).map(tuple)
knowns = st.lists(st.builds(Known, keys, times), max_size=6, unique_by=lambda each: each.key).map(tuple)
jobs = st.sampled_from((JobKey("a.py"), JobKey("a.py", "train"), JobKey("new/a.py"), JobKey("b.py")))
states = st.builds(
    lambda job, torch, more, found: replace(state_with(*found, torch=torch, **more), job=job),
    jobs,
    st.sampled_from(("2.12", "2.13")),
    counts.map(lambda given: {str(count): number for count, number in given.items()}),
    sites,
)
locks = st.dictionaries(
    st.sampled_from(("2.12", "2.13")),
    st.dictionaries(jobs, st.builds(Baseline, counts, knowns), max_size=4),
    max_size=2,
).map(Lock)
runs = st.lists(
    st.builds(lambda given, doubts: seen_of(given, doubts=doubts), states, st.sampled_from(((), (), (FAILED,)))),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each.job.key,
)
allows = st.lists(st.builds(Allow, st.just("why"), st.sampled_from(("GB1", "GB3"))), max_size=1)


def found_of(outcome: CheckOutcome, lock: Lock) -> set[tuple[object, ...]]:
    """Return the findings by job, and site or count, without jobs of torch versions that the lock lacks."""
    shown = (
        each for each in outcome.checked if each.state and (each.state.torch in lock.sections or not lock.sections)
    )
    every = ((each.job, one) for each in shown for one in each.findings)
    return {(job, one.site.key if one.site else one.count, one.kind) for job, one in every}


def sites_of(baseline: Baseline) -> list[tuple[object, ...]]:
    """Return the part of a record's sites that no edit changes; a wrapper can change the owner of a recompilation."""
    keys = [each.key for each in baseline.sites]
    return sorted((key.kind, key.causes, key.owner if key.kind is not SiteKind.RECOMPILE else "") for key in keys)


@fuzzing
@given(runs, locks, allows)
def test_an_update_is_today_and_twice_the_same(seen: list[SeenJob], lock: Lock, allow: list[Allow]) -> None:
    new = after(seen, lock, allow=allow)
    assert after(seen, new, allow=allow) == new
    for each in outcome_of(seen, new, allow).checked:
        if not each.findings or FAILED not in each.findings:
            assert each.findings == ()


@fuzzing
@given(runs, locks, allows)
def test_an_improvement_never_loosens(seen: list[SeenJob], lock: Lock, allow: list[Allow]) -> None:
    before = outcome_of(seen, lock, allow)
    new = updated(before, only_improve=True)
    now = outcome_of(seen, new, allow)
    assert found_of(before, new) <= found_of(now, new)
    lacking = {each.state.torch for each in before.checked if each.state} - new.sections.keys()
    assert kinds(now).count("no-section") == (len(lacking) if new.sections else 0)
    names = before.moved
    for torch, section in new.sections.items():
        for job, record in section.items():
            was = lock.sections.get(torch, {}).get(job) or lock.sections.get(torch, {}).get(names.get(job, job))
            if was is not None:
                assert_no_looser(record, was)


def assert_no_looser(record: Baseline, was: Baseline) -> None:
    assert all(record.counts[count] <= number for count, number in was.counts.items())
    left = sites_of(was)
    for each in sites_of(record):
        left.remove(each)
    assert sum(each.times for each in record.sites) <= sum(each.times for each in was.sites)


@fuzzing
@given(runs, locks)
def test_an_improvement_forgets_no_job_and_no_version(seen: list[SeenJob], lock: Lock) -> None:
    outcome = outcome_of(seen, lock)
    new = updated(outcome, only_improve=True)
    names = {was.model: now.model for now, was in outcome.moved.items()}
    for torch, section in lock.sections.items():
        assert {names.get(job.model, job.model) for job in section} <= {
            names.get(job.model, job.model) for job in new.sections[torch]
        }


@fuzzing
@given(states, knowns, st.data())
def test_a_shorter_record_finds_as_much_that_is_new(
    given_now: CheckedState, record: tuple[Known, ...], data: st.DataObject
) -> None:
    less = tuple(each for each in record if data.draw(st.booleans()))
    both = [
        {
            each.site.key
            for each in checked_of(seen_of(given_now), lock).findings
            if each.kind is FindingKind.NEW_SITE and each.site
        }
        for lock in (Lock({given_now.torch: {given_now.job: Baseline({}, known_now)}}) for known_now in (record, less))
    ]
    assert both[0] <= both[1]


def test_culprits_stay_in_the_lock_while_nobody_compares() -> None:
    wrong = state_with(site("torch.relu(h)", gb="float32", kind=SiteKind.CULPRIT), culprits=1)
    lock = after(seen_of(wrong), Lock())
    assert known(lock).counts[Count.CULPRITS] == 1
    assert [each.key.kind for each in known(lock).sites] == [SiteKind.CULPRIT]
    assert known(after(seen_of(state_with()), lock)).sites == known(lock).sites
    assert known(after(seen_of(state_with()), lock)).counts[Count.CULPRITS] == 1
    right = known(after(seen_of(state_with(culprits=0)), lock))
    assert (right.sites, right.counts[Count.CULPRITS]) == ((), 0)
