"""`ctrace check --suggest`: look for proved repairs of the findings of a check."""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrace.cli.command_options import words_of
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.diagnosis import SuggestedRepair
from ctrace.inspector.facts.sites import Site, SiteKey
from ctrace.inspector.features.check.check_model import (
    SEED,
    CheckedJob,
    CheckJob,
    CheckOutcome,
    JobKey,
)
from ctrace.inspector.runs.store import Store

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.fix.repairs.repair_result import TriedRepair
    from ctrace.inspector.features.fix.repairs.trial_runs import SearchBudget


DEFAULT_BUDGET = "5m"
_WITHOUT_VALUES = "a repair is proved by comparing values, and the scenario has fake: true"


def suggested(outcome: CheckOutcome, jobs: Iterable[CheckJob], store: Store, seconds: float) -> CheckOutcome:
    """Return the outcome with a suggestion at each finding that has a site, within a time for all searches."""
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.fix.repairs.trial_runs import SearchBudget
    from ctrace.inspector.runs.load import load

    def saved(name: str) -> "Session | None":
        try:
            return load(store.load(name))
        except CtraceError:
            return None  # it was deleted: the search runs the model again

    by_key = {each.key: each for each in jobs}
    with progress(is_program=False) as shown:
        return with_suggestions(outcome, by_key, saved, SearchBudget(seconds), shown.say)


def with_suggestions(
    outcome: CheckOutcome,
    jobs: Mapping[JobKey, CheckJob],
    saved: Callable[[str], "Session | None"],
    budget: "SearchBudget",
    say: Callable[[str], None],
) -> CheckOutcome:
    """Add to each finding at a site a proved repair, or why none is proved; search once for each site.

    Args:
        outcome: the check.
        jobs: its jobs, to run their models again.
        saved: reads a saved run by name; None: it cannot be read.
        budget: the time for all searches together.
        say: reports progress.
    """
    from ctrace.inspector.features.fix.repairs.suggest_repairs import INTERRUPTED, RepairSearch

    found: dict[SiteKey, SuggestedRepair] = {}
    for one in outcome.checked:
        sites = [each.site for each in one.findings if each.site is not None and each.site.key not in found]
        # After Ctrl-C, no further search begins.
        if any(each.why == INTERRUPTED for each in found.values()):
            found |= {each.key: SuggestedRepair(why=INTERRUPTED) for each in sites}
        elif sites and one.job in jobs and jobs[one.job].options.fake:
            found |= {each.key: SuggestedRepair(why=_WITHOUT_VALUES) for each in sites}
        elif sites and one.job in jobs:
            job = jobs[one.job]
            session = saved(one.run) if one.run is not None else None
            search = RepairSearch(
                job.target,
                job.options,
                session,
                budget,
                partial(_command, job),
                partial(_say_of, job.key, say),
                seed=SEED,
            )
            found |= search.suggestions(sites)
    return replace(outcome, checked=tuple(_suggested(one, found) for one in outcome.checked))


def _say_of(job: JobKey, say: Callable[[str], None], what: str) -> None:
    say(f"{job}: {what}")


def _suggested(one: CheckedJob, found: Mapping[SiteKey, SuggestedRepair]) -> CheckedJob:
    findings = tuple(
        replace(each, suggestion=found[each.site.key]) if each.site is not None and each.site.key in found else each
        for each in one.findings
    )
    return replace(one, findings=findings)


def _command(job: CheckJob, repair: "TriedRepair", site: Site) -> str:
    """Write the command that applies a repair, or shows it where only the user can decide."""
    path = Path(job.target)
    # The command is typed in this folder.
    target = os.path.relpath(path) if path.is_absolute() and path.is_relative_to(Path.cwd()) else job.target
    words = ["ctrace", "fix", target, *words_of(job.options), "--only", repair.name]
    # A setting is of no line.
    words += ["--finding", f"{Path(site.file).name}:{site.line}"] if repair.kind == "source" else []
    if repair.library:
        words += ["--report"]
    elif repair.question:
        words += ["--accept", repair.name, "--diff"]
    else:
        words += ["--apply"] if repair.files else []
    return shlex.join(words)
