"""Screen of `ctrace check`: the verdict, each finding with its line, reason and fix, then all jobs.

The table of all jobs of a check.
"""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome, GateFinding
from ctrace.inspector.features.check.policy_model import Count
from ctrace.reports import format as fmt
from ctrace.reports.gate.gate_findings import code, detail, folded, headline, identity, todo
from ctrace.reports.gate.gate_words import VERDICTS, Spot, gravest_first, near, next_steps, own_spot, sentence, title
from ctrace.reports.terminal.widgets import MOST, fix, hanging, item, more, section, table

MOST_JOBS = 100
"""If there are more jobs than this, only count those that pass."""
UNKNOWN = "–"
_BREAKS = (Count.BREAKS, Count.LIBRARY_BREAKS, Count.TORCH_BREAKS)
_COLUMNS = ("graphs", "breaks", "recompiles", "coverage", "time", "")
_OTHERS = 52
"""The width of the table's columns except the job's name and the result."""


def job_table(outcome: CheckOutcome, width: int) -> Iterator[RenderableType]:
    """Show one line per job; if there are many, only count those that pass.

    Where no model could be run at all, such as one with a syntax error, the findings say it all.
    """
    every = gravest_first(outcome)
    if all(one.exit is Exit.USAGE and one.state is None for one in every):
        return
    shown = every
    if len(every) > MOST_JOBS:
        shown = [one for one in every if one.exit is not Exit.DONE]
    yield section("Jobs")
    if shown:
        yield item(_table(shown, width))
    if passing := fmt.some(len(every) - len(shown), "job that passes", "jobs that pass"):
        yield Text(f"  {fmt.when(shown, 'and ')}{passing}")
    if any(UNKNOWN in cells(one) for one in shown):
        yield Text(f"  {UNKNOWN} not measured", style="dim")


def _table(shown: list[CheckedJob], width: int) -> RenderableType:
    rows = table("job", *_COLUMNS)
    for column in rows.columns[1:-1]:
        column.justify = "right"
    most = max(width - _OTHERS - max(len(result(one)) for one in shown), 12)
    for one in shown:
        name = _end(fmt.one_line(str(one.job)), most)
        style = "red"
        if one.exit is Exit.DONE:
            style = "green"
        rows.add_row(name, *cells(one), Text(result(one), style=style))
    return rows


def _end(name: str, most: int) -> str:
    """Cut a long name at its front; the scenario and target at its end tell jobs apart."""
    if len(name) <= most:
        return name
    return f"…{name[1 - most :]}"


def cells(one: CheckedJob) -> tuple[str, str, str, str, str]:
    """Write graphs, breaks, recompiles, coverage and seconds; for a failed program they are unknown, not 0."""
    seconds = fmt.seconds(one.seconds)
    if one.is_reused:
        seconds = "reused"
    state = one.state
    if state is None or one.exit is Exit.PROGRAM:
        return _graphs(one, None), UNKNOWN, UNKNOWN, UNKNOWN, seconds
    breaks, counts = UNKNOWN, state.counts
    # Without any of these counts, breaks were not measured, which is not 0.
    if of_breaks := [counts[each] for each in _BREAKS if each in counts]:
        breaks = str(sum(of_breaks))
    recompiles = str(counts.get(Count.RECOMPILES, UNKNOWN))
    coverage = fmt.known(state.coverage, lambda share: f"{int(share)}%", UNKNOWN)
    return _graphs(one, counts.get(Count.GRAPHS)), breaks, recompiles, coverage, seconds


def result(one: CheckedJob) -> str:
    """Write a job's result in a word or two."""
    if one.is_new:
        return f"{VERDICTS[one.exit]}, new"
    return VERDICTS[one.exit]


def _graphs(one: CheckedJob, now: int | None) -> str:
    if now is None:
        return UNKNOWN
    if one.graphs_before not in (None, now):
        return f"{one.graphs_before} → {now}"
    return str(now)


STYLES = {
    Exit.DONE: "bold green",
    Exit.WORSE: "bold red",
    Exit.UNTRUSTED: "bold yellow",
    Exit.PROGRAM: "bold red",
    Exit.USAGE: "bold yellow",
}
_LESS_SURE = {**STYLES, Exit.DONE: "bold yellow"}
"""Styles for a check without Inductor's guards: only a complete check is green."""


def check_screen(outcome: CheckOutcome, width: int) -> Iterator[RenderableType]:
    """Show the result of a check."""
    yield _headline(outcome)
    yield from _policy_findings(outcome)
    seen: dict[object, CheckedJob] = {}
    for one in gravest_first(outcome):
        if one.findings:
            yield from _job(one, outcome, seen)
    yield from _better(outcome)
    yield from _allowed(outcome)
    yield from _notes(outcome)
    yield from job_table(outcome, width)
    yield from _next(outcome)


def _headline(outcome: CheckOutcome) -> Text:
    files = [near(file, outcome) for file in (outcome.policy.file, outcome.lock.file) if file]
    facts = fmt.joined(
        " · ",
        fmt.framed("torch ", outcome.torch),
        fmt.count(len(outcome.checked), "job"),
        fmt.seconds(outcome.seconds),
        *(files or ["no policy, no lock: defaults apply"]),
    )
    styles = _LESS_SURE
    if outcome.inductor_guards:
        styles = STYLES
    head = (title(outcome), styles[outcome.exit])
    return Text.assemble(head, f"  {sentence(outcome)}\n", (fmt.one_line(facts, 400), "dim"))


def _policy_findings(outcome: CheckOutcome) -> Iterator[RenderableType]:
    """Show findings about the policy and the lock."""
    if outcome.findings:
        yield section("The policy and the lock")
        for number, each in enumerate(outcome.findings, 1):
            yield item(Group(*_finding(number, each, None, own_spot(each, outcome))))


def _job(one: CheckedJob, outcome: CheckOutcome, seen: dict[object, CheckedJob]) -> Iterator[RenderableType]:
    name = (fmt.one_line(str(one.job), 300), "bold")
    yield Text.assemble("\n", name, "  ", (VERDICTS[one.exit], STYLES[one.exit]))
    for number, each in enumerate(folded(one.findings), 1):
        # Scenarios of one model have most findings in common.
        before = seen.setdefault(identity(each, one), one)
        if before is not one:
            yield item(_seen_before(number, each, before))
            continue
        yield item(Group(*_finding(number, each, one, own_spot(each, outcome))))


def _seen_before(number: int, finding: GateFinding, before: CheckedJob) -> Text:
    """Name the job that shows the same site in full."""
    where = f"  same as in {fmt.one_line(str(before.job), 300)}"
    return Text.assemble((f"{number}. {fmt.one_line(headline(finding, with_code=False), 300)}", "bold"), (where, "dim"))


def _finding(number: int, finding: GateFinding, one: CheckedJob | None, at: Spot | None) -> Iterator[RenderableType]:
    yield Text(f"{number}. {fmt.one_line(headline(finding, with_code=False), 500)}", style="bold")
    if at is not None:
        yield hanging(f"{fmt.place(at.file, at.line, '')}{_owner(finding)}", "cyan")
    if finding.site is not None:
        yield from _source(finding)
        if finding.site.reason:
            yield hanging(finding.site.reason)
    for each in detail(finding, one):
        yield hanging(f"{each[:1].upper()}{each[1:]}.", "yellow")
    for each in todo(finding):
        yield fix(each)


def _owner(finding: GateFinding) -> str:
    if finding.site is None or finding.site.key.owner is Owner.USER:
        return ""
    return f" in {finding.site.key.owner} code"


def _source(finding: GateFinding) -> Iterator[RenderableType]:
    """Show the source line, and underline the part that breaks if known."""
    site = finding.site
    # A tab is one column of a span, and several of the screen.
    line = fmt.plain(code(finding).replace("\t", " ")).replace("\n", " ")
    text = Text(line, style="cyan", no_wrap=True, overflow="ellipsis")
    if site and site.source and site.span and 0 <= site.span[0] < site.span[1] <= len(line):
        begin, end = site.span
        text.append(f"\n{' ' * begin}{'^' * (end - begin)}", style="bold cyan")
    yield Padding(text, (0, 0, 0, 5))


def _better(outcome: CheckOutcome) -> Iterator[RenderableType]:
    found = [(one, each) for one in outcome.checked for each in one.better]
    if found:
        yield section("Better than the lock")
        for one, each in found[:MOST]:
            job = (f"  {fmt.one_line(str(one.job), 100)}", "dim")
            yield item(Text.assemble((fmt.one_line(each, 300), "green"), job))
        yield from more(len(found), "improvement")


def _allowed(outcome: CheckOutcome) -> Iterator[RenderableType]:
    """Show sites that the policy allows, each once, and why."""
    sites = {site.key: (site, allow) for one in outcome.checked for site, allow in one.allowed}
    if sites:
        yield section("Allowed by the policy")
        for key, (_, allow) in list(sites.items())[:MOST]:
            head = " ".join((*key.causes, key.place))
            until = fmt.framed(", until ", allow.expires)
            yield item(Text(f"{fmt.one_line(head, 200)}: {fmt.one_line(allow.reason, 300)}{until}", style="dim"))
        yield from more(len(sites), "site")


def _notes(outcome: CheckOutcome) -> Iterator[RenderableType]:
    if outcome.notes:
        yield section("Notes")
        for note in outcome.notes:
            text = fmt.one_line(note, 500)
            if note == outcome.reused:
                yield item(Text(text, style="dim"))
            else:
                yield item(Text(f"! {text}", style="yellow"))


def _next(outcome: CheckOutcome) -> Iterator[RenderableType]:
    steps = next_steps(outcome)
    if steps:
        yield section("What to do next")
        yield from _steps(steps)


def _steps(steps: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    for command, why in steps:
        yield item(Text.assemble((fmt.one_line(command, 200), "green"), f"  {fmt.one_line(why, 300)}"))
