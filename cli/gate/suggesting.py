"""`ctrace check --suggest`: look for proved repairs of the findings of a check."""

import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.cli.gate.check_request import words_of
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.sites import Site
from ctrace.inspector.features.check.model import Job
from ctrace.inspector.features.check.verdict import Outcome
from ctrace.inspector.runs.store import Store

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.fix.repairs.result import Tried

DEFAULT_BUDGET = "5m"


def suggested(outcome: Outcome, jobs: Iterable[Job], store: Store, seconds: float) -> Outcome:
    """Return the outcome with a suggestion at each finding that has a site, within a time for all searches."""
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.fix.repairs.running import Budget
    from ctrace.inspector.features.fix.repairs.suggesting import with_suggestions
    from ctrace.inspector.runs.load import load

    def saved(name: str) -> "Session | None":
        try:
            return load(store.load(name))
        except CtraceError:
            return None  # it was deleted: the search runs the model again

    by_key = {each.key: each for each in jobs}
    with progress(is_program=False) as shown:
        return with_suggestions(outcome, by_key, saved, Budget(seconds), _command, shown.say)


def _command(job: Job, repair: "Tried", site: Site) -> str:
    """Write the command that applies a repair, or shows it where only the user can decide."""
    path = Path(job.target)
    target = os.path.relpath(path) if path.is_absolute() and path.is_relative_to(Path.cwd()) else job.target
    words = ["ctrace", "fix", target, *words_of(job.options), "--only", repair.name]
    words += ["--finding", f"{Path(site.file).name}:{site.line}"] if repair.kind == "source" else []
    if repair.library:
        words += ["--report"]
    elif repair.question:
        words += ["--accept", repair.name, "--diff"]
    else:
        words += ["--apply"] if repair.files else []
    return shlex.join(words)
