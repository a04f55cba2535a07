"""Screen of `ctrace check`: the verdict, each finding with its line, reason and fix, then all jobs."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.errors import Exit
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.features.check.verdict import CheckedJob, CheckOutcome, GateFinding
from ctrace.reports import format as fmt
from ctrace.reports.gate.gate_findings import code, detail, folded, headline, identity, todo
from ctrace.reports.gate.gate_places import Spot, near, own_spot
from ctrace.reports.gate.gate_words import VERDICTS, gravest_first, next_steps, sentence, title
from ctrace.reports.gate.screentable import job_table
from ctrace.reports.terminal.widgets import MOST, fix, hanging, item, more, section

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
    facts = [
        f"torch {outcome.torch}" if outcome.torch else "",
        fmt.count(len(outcome.checked), "job"),
        fmt.seconds(outcome.seconds),
        *(files or ["no policy, no lock: defaults apply"]),
    ]
    return Text.assemble(
        (title(outcome), STYLES[outcome.exit] if outcome.inductor_guards else _LESS_SURE[outcome.exit]),
        f"  {sentence(outcome)}\n",
        (fmt.one_line(" · ".join(fact for fact in facts if fact), 400), "dim"),
    )


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
        yield hanging(finding.site.reason) if finding.site.reason else Text(end="")
    for each in detail(finding, one):
        yield hanging(f"{each[:1].upper()}{each[1:]}.", "yellow")
    for each in todo(finding):
        yield fix(each)


def _owner(finding: GateFinding) -> str:
    owner = finding.site.key.owner if finding.site else Owner.USER
    return "" if owner is Owner.USER else f" in {owner} code"


def _source(finding: GateFinding) -> Iterator[RenderableType]:
    """Show the source line, and underline the part that breaks if known."""
    site = finding.site
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
            until = f", until {allow.expires}" if allow.expires else ""
            yield item(Text(f"{fmt.one_line(head, 200)}: {fmt.one_line(allow.reason, 300)}{until}", style="dim"))
        yield from more(len(sites), "site")


def _notes(outcome: CheckOutcome) -> Iterator[RenderableType]:
    if outcome.notes:
        yield section("Notes")
        for note in outcome.notes:
            text = fmt.one_line(note, 500)
            yield item(Text(text, style="dim") if note == outcome.reused else Text(f"! {text}", style="yellow"))


def _next(outcome: CheckOutcome) -> Iterator[RenderableType]:
    steps = next_steps(outcome)
    if steps:
        yield section("What to do next")
        yield from _steps(steps)


def _steps(steps: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    for command, why in steps:
        yield item(Text.assemble((fmt.one_line(command, 200), "green"), f"  {fmt.one_line(why, 300)}"))
