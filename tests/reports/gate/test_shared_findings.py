"""Findings that several jobs share."""

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Cost
from ctrace.inspector.features.check.check_model import CheckedJob, FindingKind, GateFinding, JobKey
from ctrace.reports.gate.gate_findings import folded, lines, shared_findings
from tests.support import outcomes

MORE = GateFinding(FindingKind.MORE_TIMES, "more", site=outcomes.PRINT, was=1.0, now=3.0)


def _jobs(*findings: GateFinding) -> list[CheckedJob]:
    return [CheckedJob(JobKey("a.py", f"way {number}"), None, (each,)) for number, each in enumerate(findings)]


def test_a_site_of_several_jobs_is_shown_where_it_costs_most() -> None:
    costly = replace(outcomes.BRANCH, cost=Cost(28, 1))
    merged = shared_findings(outcomes.outcome(*_jobs(outcomes.new_site(outcomes.BRANCH), outcomes.new_site(costly))))
    assert [(each.finding.site, [one.job.scenario for one in each.checked]) for each in merged] == [
        (costly, ["way 1", "way 0"])
    ]


def test_different_numbers_are_different_findings() -> None:
    assert len(shared_findings(outcomes.outcome(*_jobs(MORE, MORE, replace(MORE, now=4.0))))) == 2


def test_findings_without_a_site_are_not_merged() -> None:
    late = GateFinding(FindingKind.TIMEOUT, "not done after 600 s")
    assert len(shared_findings(outcomes.outcome(*_jobs(late, late)))) == 2


def test_the_gravest_is_first_then_the_costliest() -> None:
    kinds = [each.finding.kind for each in shared_findings(outcomes.FAILED)]
    assert kinds == ["failed", "crashed", "timeout", "compile-failed", "new-site"]
    assert [each.finding.site for each in shared_findings(outcomes.WORSE)][:3] == [
        outcomes.BRANCH,
        outcomes.SKIP,
        outcomes.PRINT,
    ]


def test_each_advice_is_shown_once() -> None:
    same = replace(outcomes.new_site(outcomes.PRINT), todo=outcomes.PRINT.fix)
    assert sum(line.startswith("→") for line in lines(same, None, None)) == 1


def test_findings_of_one_cause_are_one_with_their_costs() -> None:
    printed = replace(outcomes.BRANCH, cost=Cost(1, 0))
    key = replace(printed.key, causes=("GB0124",), text="y.item()")
    read = replace(printed, key=key, follows=printed.key, cost=Cost(2, 1))
    other = replace(read, key=replace(key, text="z.item()"), follows=replace(key, text="not a finding"))
    first, last = folded(tuple(map(outcomes.new_site, (read, printed, other))))
    assert first.site is not None
    assert (first.site.key, first.site.cost) == (printed.key, Cost(3, 1))
    assert [each.site and each.site.key for each in first.consequences] == [key]
    assert any(line.startswith("with it: new graph break: ") for line in lines(first, None, None))
    assert last.site == other
