"""`check --memory`: the computed peak of a step in the lock, and when it cannot be judged."""

from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.facts.memory_facts import FoundMemory, MemoryPeak
from ctrace.inspector.features.check.check_model import JobKey
from ctrace.inspector.features.check.jobs import jobs_of
from ctrace.inspector.features.check.lock_file import lock_text, parse_lock
from ctrace.inspector.features.check.policy_file import load_policy
from ctrace.inspector.features.check.policy_model import Count, Limits
from ctrace.inspector.features.check.ratchet import updated
from ctrace.inspector.features.check.trust import untrusted
from tests.support.gated import checked_of, kinds, lock_of, outcome_of, seen_of, state, state_with
from tests.support.sessions import HEALTHY

FOLLOWED = replace(HEALTHY, memory=FoundMemory(MemoryPeak(4096, False, "backward", "model.py:3"), None))
FAILED = replace(HEALTHY, memory=FoundMemory(MemoryPeak(0, False, "", ""), None, why_not="it raises"))


def test_the_peak_counts_only_where_memory_was_followed() -> None:
    assert state(FOLLOWED).counts[Count.PEAK_BYTES] == 4096
    for session in (HEALTHY, FAILED):
        assert Count.PEAK_BYTES not in state(session).counts


def test_a_step_that_cannot_be_followed_is_named() -> None:
    assert [each.what for each in untrusted(FAILED)] == ["memory: it could not be followed: it raises"]
    assert not list(untrusted(FOLLOWED))


def test_a_higher_peak_than_in_the_lock_fails_and_a_lower_one_is_better() -> None:
    low, high = state_with(peak_bytes=4096), state_with(peak_bytes=8192)
    assert kinds(checked_of(seen_of(high), lock_of(low))) == ["more"]
    assert checked_of(seen_of(high), lock_of(low)).findings[0].what == "+4096 bytes of memory at the peak"
    assert kinds(checked_of(seen_of(low), lock_of(low))) == []
    assert len(checked_of(seen_of(low), lock_of(high)).better) == 1


def test_the_peak_stays_in_the_lock_while_nobody_looks() -> None:
    known = lock_of(state_with(peak_bytes=4096))
    assert parse_lock(lock_text(known), "ctrace.lock").sections == known.sections
    unseen = seen_of(state_with())
    assert any("was not followed" in each for each in (checked_of(unseen, known).state or state_with()).notes)
    (jobs,) = updated(outcome_of(unseen, known)).sections.values()
    assert [each.counts[Count.PEAK_BYTES] for each in jobs.values()] == [4096]


def test_a_limit_needs_memory_that_is_followed() -> None:
    found = checked_of(seen_of(state_with(), Limits({Count.PEAK_BYTES: 1})))
    assert kinds(found) == ["not-measured"]
    assert "memory: true" in found.findings[0].todo


def test_a_policy_asks_for_it_also_for_one_model(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(
            "import torch\nmodel = torch.nn.Linear(2, 2)\ndef inputs(): return (torch.ones(2),)\n"
        )
    (tmp_path / "ctrace.yaml").write_text(
        "memory: true\nmodels:\n  - a.py\n  - path: b.py\n    memory: false\nlimits: {peak_bytes: 2MiB}\n"
    )
    policy = load_policy(tmp_path / "ctrace.yaml")
    assert policy.limits.most == {Count.PEAK_BYTES: 2 << 20}
    found = {each.key: each.memory for each in jobs_of(policy, tmp_path, ()).jobs}
    assert found == {JobKey("a.py"): True, JobKey("b.py"): False}
