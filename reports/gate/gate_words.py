"""Words that all reports of a check share: the verdict, its sentence, costs and numbers, and what to run next.

Find the place of a finding: a file relative to the working directory, a line, and columns if known.
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.sites import Site, SiteKind
from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome, FindingKind, GateFinding, JobKey
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.files.writing import working_folder
from ctrace.reports import format as fmt


class Spot(Struct, frozen=True):
    """A place in a file."""

    file: str
    """Relative to the working directory, with `/`, if below it; else absolute."""
    line: int | None = None
    columns: tuple[int, int] | None = None
    """The first column, from 1, and the column after the last one, in characters."""

    def __str__(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"


def cwd() -> Path:
    """Return the working directory, to which shown paths are relative."""
    return working_folder()


def own_spot(finding: GateFinding, outcome: CheckOutcome) -> Spot | None:
    """Return the place of a finding, or of its site; None if neither has one."""
    if finding.file:
        return Spot(near(finding.file, outcome), finding.line or None)
    if finding.site:
        return site_spot(finding.site, outcome)
    return None


def spot(finding: GateFinding, checked: CheckedJob | None, outcome: CheckOutcome) -> Spot | None:
    """Return a finding's place, or else its model's file, the policy or the lock; None without any file."""
    if own := own_spot(finding, outcome):
        return own
    name = outcome.policy.file or outcome.lock.file
    if checked:
        name = model_file(checked.job) or name
    if name:
        return Spot(near(name, outcome))
    return None


def site_spot(site: Site, outcome: CheckOutcome) -> Spot | None:
    """Return the place of a site; None if its file is not known."""
    if not site.file:
        return None
    if not site.line:
        return Spot(near(site.file, outcome))
    return Spot(near(site.file, outcome), site.line, _columns(site))


def _columns(site: Site) -> tuple[int, int] | None:
    """Return columns counted from the start of the line; a span counts from the indent."""
    if site.span is None or not site.source:
        return None
    indent = len(site.source) - len(site.source.lstrip())
    begin, end = (min(column + indent, len(site.source)) + 1 for column in site.span)
    if begin < end:
        return begin, end
    return None


def model_file(job: JobKey) -> str | None:
    """Return the file of a job's model as the policy writes it; None for `package.module:name`."""
    head, _, _ = job.model.rpartition(":")
    # `models/tiny.py:net` has a head, `models/tiny.py` has none.
    for file in (head, job.model):
        if file.endswith(".py"):
            return file
    return None


def policy_name(outcome: CheckOutcome) -> str | None:
    """Write the policy's file as `near` does; None if there is none."""
    if outcome.policy.file:
        return near(outcome.policy.file, outcome)
    return None


def lock_name(outcome: CheckOutcome) -> str | None:
    """Write the lock's file as `near` does; None if there is none."""
    if outcome.lock.file:
        return near(outcome.lock.file, outcome)
    return None


def near(file: str, outcome: CheckOutcome) -> str:
    """Write a file relative to the working directory; a relative `file` starts at the policy's folder."""
    whole = _absolute(file, outcome)
    here = cwd()
    if whole.is_relative_to(here):
        return whole.relative_to(here).as_posix()
    return whole.as_posix()


def _absolute(file: str, outcome: CheckOutcome) -> Path:
    policy, folder = outcome.policy.file, Path()
    # These two are named from the working directory, and what they name from the policy's folder.
    if policy is not None and file not in (policy, outcome.lock.file):
        folder = Path(policy).parent
    # Not `resolve`, which would follow links to names that the user does not know.
    return Path(os.path.normpath(cwd() / folder / file))


VERDICTS = {
    Exit.DONE: "holds",
    Exit.WORSE: "worse",
    Exit.UNTRUSTED: "untrusted",
    Exit.PROGRAM: "failed",
    Exit.USAGE: "wrong",
}
"""The names of exit codes in the JSON."""
TITLES = {
    Exit.DONE: "HOLDS",
    Exit.WORSE: "WORSE",
    Exit.UNTRUSTED: "NOT TRUSTED",
    Exit.PROGRAM: "FAILED",
    Exit.USAGE: "CANNOT CHECK",
}
# First what keeps models from being checked, then what keeps them from being judged: worse is at least a result.
GRAVEST_FIRST = (Exit.USAGE, Exit.UNTRUSTED, Exit.PROGRAM, Exit.WORSE, Exit.DONE)
KINDS = {
    FindingKind.NEW_SITE: "a new finding that is not in the lock",
    FindingKind.MORE_TIMES: "a known finding that occurs more often than in the lock",
    FindingKind.MORE: "a count higher than in the lock",
    FindingKind.LIMIT: "a limit of the policy is exceeded",
    FindingKind.NOTHING_COMPILED: "nothing was compiled",
    FindingKind.DOUBT: "the result is in doubt",
    FindingKind.NOT_MEASURED: "the policy limits something that was not measured",
    FindingKind.FAILED: "the model fails in eager, or cannot be loaded",
    FindingKind.COMPILE_FAILED: "the model runs in eager, but fails when compiled",
    FindingKind.CRASHED: "the process crashed",
    FindingKind.TIMEOUT: "the model ran out of time",
    FindingKind.WRONG: "the policy, the lock or a model is missing or cannot be read",
    FindingKind.VANISHED: "the lock has a model that the policy no longer names",
    FindingKind.NO_SECTION: "the lock has no entries for this torch version",
}
_DID = {
    Exit.USAGE: ("cannot be checked", "cannot be checked"),
    Exit.UNTRUSTED: ("has no trustworthy result", "have no trustworthy result"),
    Exit.PROGRAM: ("failed", "failed"),
    Exit.WORSE: ("got worse", "got worse"),
    Exit.DONE: ("passes", "pass"),
}
_ALL = 100.0
"""The percentage of ops in graphs of a job whose coverage is not known: nothing says that it compiles badly."""
_NOT_CHECKED = "Inductor's guards not checked"
_LEFT_IN_EAGER = (SiteKind.BREAK, SiteKind.DISABLED, SiteKind.SKIP)
_BY_UPDATE = (FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE)
_MOST_RUNS = 3
"""How many runs to list for details."""


def title(outcome: CheckOutcome) -> str:
    """Return the verdict as a headline, qualified if Inductor's guards were not checked."""
    return _qualified(TITLES[outcome.exit], outcome)


def verdict(outcome: CheckOutcome) -> str:
    """Return the verdict's name, qualified if Inductor's guards were not checked."""
    return _qualified(VERDICTS[outcome.exit], outcome)


def _qualified(word: str, outcome: CheckOutcome) -> str:
    if outcome.inductor_guards:
        return word
    return f"{word} ({_NOT_CHECKED})"


def sentence(outcome: CheckOutcome) -> str:
    """Say how many models pass or not, and how many problems the policy and the lock have."""
    every = [*outcome.findings, *(each for one in outcome.checked for each in one.findings)]
    if every and all(each.by_inductor for each in every):
        return "More findings than in the lock, perhaps only because Inductor's guards are checked now."
    also = fmt.framed(" ", fmt.some(len(outcome.findings), "problem"), " with the policy or the lock.")
    return f"{_models(_models_by_exit(outcome.checked))}{also}"


def _models(by_exit: Mapping[Exit, int]) -> str:
    whole = sum(by_exit.values())
    found = [(code, by_exit[code]) for code in GRAVEST_FIRST if by_exit[code]]
    if not found:
        return "No model was checked."
    if len(found) == 1:
        who = {1: "The model", 2: "Both models"}.get(whole, f"All {whole} models")
        return f"{who} {_DID[found[0][0]][whole > 1]}."
    (code, number), *others = found
    first = f"{number} of {whole} models {_DID[code][number > 1]}"
    return ", ".join([first, *(f"{number} {_DID[code][number > 1]}" for code, number in others)]) + "."


def _models_by_exit(checked: Iterable[CheckedJob]) -> dict[Exit, int]:
    """Count each model once, with the result of its gravest job."""
    exits: dict[str, Exit] = {}
    for one in checked:
        known = exits.get(one.job.model, Exit.DONE)
        exits[one.job.model] = min(known, one.exit, key=GRAVEST_FIRST.index)
    return {code: list(exits.values()).count(code) for code in GRAVEST_FIRST}


def gravest_first(outcome: CheckOutcome) -> list[CheckedJob]:
    """Sort jobs by what to do first: the gravest result, then what compiles worst, then the policy's order."""
    return sorted(outcome.checked, key=lambda one: (GRAVEST_FIRST.index(one.exit), _left_to_do(one)))


def _left_to_do(one: CheckedJob) -> tuple[int, int, float]:
    """Return what torch.compile left out of a job: the more, the sooner it is worth a look."""
    state = one.state
    if state is None:
        return 0, 0, _ALL
    breaks = sum(state.counts.get(each, 0) for each in (Count.BREAKS, Count.LIBRARY_BREAKS, Count.SKIPPED))
    coverage = _ALL
    if state.coverage is not None:
        coverage = float(state.coverage)
    return -breaks, -state.counts.get(Count.RECOMPILES, 0), coverage


def cost(finding: GateFinding, checked: CheckedJob | None) -> str:
    """Write the cost of a break or a skip, such as `splits 2 graphs into 3, 14 ops now in eager`."""
    site = finding.site
    if site is None or site.key.kind not in _LEFT_IN_EAGER:
        return ""
    parts = [_split(finding, checked)]
    if site.cost.ops is None:
        parts.append("ops in eager not measured")
    elif site.cost.ops:
        now = fmt.when(finding.kind is FindingKind.NEW_SITE, "now ")
        parts.append(f"{fmt.count(site.cost.ops, 'op')} {now}in eager")
    return ", ".join(filter(None, parts))


def _split(finding: GateFinding, checked: CheckedJob | None) -> str:
    """Say how the job's graphs split if only this break explains it; else how many graphs it adds."""
    adds = finding.site.cost.graphs if finding.site else 0
    if checked is not None and checked.state is not None and checked.graphs_before is not None:
        now = checked.state.counts.get(Count.GRAPHS)
        is_only_new = [each.kind for each in checked.findings].count(FindingKind.NEW_SITE) == 1
        is_only_new = is_only_new and finding.kind is FindingKind.NEW_SITE
        if is_only_new and now is not None and now - checked.graphs_before == adds > 0:
            return f"splits {fmt.count(checked.graphs_before, 'graph')} into {now}"
    if adds:
        return f"adds {fmt.count(adds, 'graph')}"
    return ""


def numbers(finding: GateFinding) -> str:
    """Write the current number and the allowed number; empty if a finding has no numbers."""
    if finding.now is None or finding.was is None:
        return ""
    was, now = _number(finding.was), _number(finding.now)
    if finding.kind is FindingKind.MORE_TIMES:
        return f"{now} times now, {was} in the lock"
    if finding.kind is FindingKind.MORE:
        return f"{now} now, {was} in the lock"
    # Coverage is the one limit that is no count.
    if finding.count is None:
        return f"{now}% of the ops are in graphs, the minimum is {was}%"
    return f"{now} now, the limit is {was}"


def _number(value: float) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:.1f}"


def next_steps(outcome: CheckOutcome) -> list[tuple[str, str]]:
    """Return commands and what they do; suggest writing the lock only if every result can be trusted."""
    kinds = {each.kind for one in outcome.checked for each in one.findings} | {each.kind for each in outcome.findings}
    steps = _details(outcome)
    if _may_suggest(outcome):
        steps.append((f"{outcome.command} --suggest", "look for a proved repair of each finding, as ctrace fix does"))
    policy = policy_name(outcome)
    by_update: tuple[FindingKind, ...] = _BY_UPDATE
    if not policy:  # the limit is that of the defaults, which the lock replaces
        by_update = (*_BY_UPDATE, FindingKind.LIMIT)
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
    if len(kinds) == 1:
        return views.get(next(iter(kinds)), "breaks")
    return "breaks"
