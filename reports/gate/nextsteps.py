"""Next steps after a check: commands to run, and why."""

import shlex

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.sites import SiteKind
from ctrace.inspector.features.check.verdict import CheckOutcome, FindingKind
from ctrace.reports.gate.gate_places import near
from ctrace.reports.gate.gate_words import gravest_first

_BY_UPDATE = (FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE)
_MOST_RUNS = 3
"""How many runs to list for details."""


def next_steps(outcome: CheckOutcome) -> list[tuple[str, str]]:
    """Return commands and what they do; suggest writing the lock only if every result can be trusted."""
    kinds = {each.kind for one in outcome.checked for each in one.findings} | {each.kind for each in outcome.findings}
    steps = _details(outcome)
    if _may_suggest(outcome):
        steps.append((f"{outcome.command} --suggest", "look for a proved repair of each finding, as ctrace fix does"))
    policy = near(outcome.policy.file, outcome) if outcome.policy.file else None
    by_update = _BY_UPDATE if policy else (*_BY_UPDATE, FindingKind.LIMIT)
    if outcome.exit is Exit.WORSE and kinds.intersection(by_update):
        steps.append((f"{outcome.command} --update", "if this is intended: record the current state in the lock"))
    if FindingKind.LIMIT in kinds and policy:
        steps.append((policy, "if this is intended: raise the limit, or allow the site with a reason"))
    if any(one.better for one in outcome.checked):
        steps.append((f"{outcome.command} --update --only-improve", "record the improvements; never loosens the lock"))
    if outcome.exit is Exit.DONE and any(one.is_new for one in outcome.checked):
        steps.append((f"{outcome.command} --update", "add the new models to the lock"))
    return steps


def _may_suggest(outcome: CheckOutcome) -> bool:
    """Whether there is a finding at a place that no search was made for, of a job that `ctrace check` can run."""
    own = (one for one in outcome.checked if one.job.is_of_policy)
    sites = (each for one in own for each in one.findings if each.site is not None and each.suggestion is None)
    return any(each.site is not None and each.site.key.kind is not SiteKind.CULPRIT for each in sites)


def _details(outcome: CheckOutcome) -> list[tuple[str, str]]:
    """List the runs of failing jobs, each with the command that shows most about it."""
    steps = []
    for one in gravest_first(outcome):
        if one.run and one.findings:
            kinds = {each.site.key.kind for each in one.findings if each.site}
            steps.append((f"ctrace {_command(kinds)} {shlex.quote(one.run)}", f"details of {one.job}"))
    return steps[:_MOST_RUNS]


def _command(kinds: set[SiteKind]) -> str:
    """Return the command that shows most about sites of some kinds."""
    if not kinds:
        return "explain"
    views = {SiteKind.RECOMPILE: "recompiles", SiteKind.CULPRIT: "explain", SiteKind.DANGER: "explain"}
    return views.get(next(iter(kinds)), "breaks") if len(kinds) == 1 else "breaks"
