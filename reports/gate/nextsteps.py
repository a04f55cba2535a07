"""What to do after a check: commands to type, and what for."""

import shlex

from ctrace.inspector.errors import Exit
from ctrace.inspector.gate.model import SiteKind
from ctrace.inspector.gate.verdict import FindingKind, Outcome
from ctrace.reports.gate.places import near
from ctrace.reports.gate.words import gravest_first

_BY_UPDATE = (FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE)
_CLOSER = 3
"""Runs that are named for a closer look."""


def next_steps(outcome: Outcome) -> list[tuple[str, str]]:
    """Give commands and what they do; the lock is only to be written where every model can be trusted."""
    kinds = {each.kind for one in outcome.checked for each in one.findings} | {each.kind for each in outcome.findings}
    steps = _closer(outcome)
    policy = near(outcome.policy.file, outcome) if outcome.policy.file else None
    by_update = _BY_UPDATE if policy else (*_BY_UPDATE, FindingKind.LIMIT)
    if outcome.exit is Exit.WORSE and kinds.intersection(by_update):
        steps.append((f"{outcome.command} --update", "if this is wanted: keep today's state in the lock"))
    if FindingKind.LIMIT in kinds and policy:
        steps.append((policy, "if this is wanted: raise the limit there, or allow a site, with a reason"))
    if any(one.better for one in outcome.checked):
        steps.append((f"{outcome.command} --update --only-improve", "keep what got better; loosens nothing"))
    if outcome.exit is Exit.DONE and any(one.is_new for one in outcome.checked):
        steps.append((f"{outcome.command} --update", "add the models that the lock does not know"))
    return steps


def _closer(outcome: Outcome) -> list[tuple[str, str]]:
    """Name the runs of jobs that do not hold, with the command that shows most of them."""
    steps = []
    for one in gravest_first(outcome):
        if one.run and one.findings:
            kinds = {each.site.key.kind for each in one.findings if each.site}
            command = "recompiles" if kinds == {SiteKind.RECOMPILE} else "breaks" if kinds else "explain"
            steps.append((f"ctrace {command} {shlex.quote(one.run)}", f"look closer at {one.job}"))
    return steps[:_CLOSER]
