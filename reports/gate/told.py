"""What to tell of a finding, in plain lines; and findings that several jobs share, told once."""

from collections.abc import Iterator
from dataclasses import dataclass

from ctrace.inspector.gate.verdict import EXITS, Checked, Finding, Outcome
from ctrace.reports import format as fmt
from ctrace.reports.gate.places import Spot, spot
from ctrace.reports.gate.words import GRAVEST_FIRST, cost, numbers

LONGEST = 500
"""Characters of a line that is told; a hostile name must not bury the rest."""


@dataclass(frozen=True, slots=True)
class Told:
    """A finding, and the jobs that have it."""

    finding: Finding
    checked: tuple[Checked, ...]
    """Empty for a finding about no job."""
    spot: Spot | None

    @property
    def first(self) -> Checked | None:
        """Give the first job that has it."""
        return self.checked[0] if self.checked else None


def every(outcome: Outcome) -> list[Told]:
    """Give every finding once, the gravest first, then what costs most; those of one site in several jobs are one."""
    jobs: dict[object, list[tuple[Finding, Checked | None]]] = {}
    for finding, checked in _pairs(outcome):
        jobs.setdefault(identity(finding, checked), []).append((finding, checked))
    told = [_told(same, outcome) for same in jobs.values()]
    return sorted(told, key=lambda each: _weight(each.finding))


def _pairs(outcome: Outcome) -> Iterator[tuple[Finding, Checked | None]]:
    yield from ((finding, None) for finding in outcome.findings)
    yield from ((finding, one) for one in outcome.checked for finding in one.findings)


def identity(finding: Finding, checked: Checked | None) -> object:
    """Give what makes findings of several jobs the same: the site and the numbers; without a site none are."""
    same = finding.site.key if finding.site else (finding.file, finding.line, checked and checked.job)
    return finding.kind, finding.what, finding.was, finding.now, same


def _told(same: list[tuple[Finding, Checked | None]], outcome: Outcome) -> Told:
    """Tell of several jobs the one where it costs most."""
    same = sorted(same, key=lambda pair: _weight(pair[0]))
    finding, checked = same[0]
    return Told(finding, tuple(one for _, one in same if one is not None), spot(finding, checked, outcome))


def _weight(finding: Finding) -> tuple[int, int, int]:
    ops, graphs = ((finding.site.cost.ops or 0), finding.site.cost.graphs) if finding.site else (0, 0)
    return GRAVEST_FIRST.index(EXITS[finding.kind]), -ops, -graphs


def lines(finding: Finding, checked: Checked | None, at: Spot | None) -> list[str]:
    """Tell a finding as the terminal does: what, where, the code, why, what it costs, what to do."""
    site = finding.site
    parts = [
        finding.what,
        str(at) if at else "",
        f"  {code(finding)}" if site else "",
        site.reason if site else "",
        *detail(finding, checked),
        *(f"→ {each}" for each in todo(finding)),
    ]
    return [f"{'  ' * part.startswith('  ')}{fmt.one_line(part, LONGEST)}" for part in parts if part.strip()]


def code(finding: Finding) -> str:
    """Give the source of a finding's site: the line as it stands, or else the statement."""
    site = finding.site
    return (site.source.strip() or site.key.text) if site else ""


def detail(finding: Finding, checked: Checked | None) -> list[str]:
    """Write a finding's numbers and costs, those that it has."""
    return [each for each in (numbers(finding), cost(finding, checked)) if each]


def todo(finding: Finding) -> list[str]:
    """Give what to do: the site's fix and the finding's own advice, each once."""
    fix = finding.site.fix if finding.site else ""
    return [each for each in dict.fromkeys((fix, finding.todo)) if each.strip()]
