"""What scenarios showed: results that differ from eager, and what was provoked."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.findings import Danger
from ctrace.inspector.model import Session
from ctrace.inspector.scenariokinds import Outcome
from ctrace.inspector.views.scenarios import not_compared, provoked
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import GAP, MOST, fix, hanging, item, more, section

_NAME = 24


def danger_findings(session: Session) -> Iterator[RenderableType]:
    """Show each silent danger with its line, and what was not compared."""
    cwd = session.environment.cwd
    if session.dangers:
        yield section("Silent dangers: compiled code gives other results than eager")
        for number, danger in enumerate(session.dangers[:MOST], 1):
            yield item(Group(_head(number, danger, cwd), hanging(danger.why), fix(danger.fix)))
        yield from more(len(session.dangers), "danger")
    for why, names in not_compared(session).items():
        shown = fmt.listed((fmt.one_line(name, 30) for name in names), 4)
        yield item(Text(f"\nNot compared with eager in {shown}: {fmt.one_line(why)}.", style="yellow"))


def _head(number: int, danger: Danger, cwd: str) -> Text:
    where = fmt.place(danger.file, danger.line, cwd) if danger.file else "line not known"
    facts = [
        f"scenario {fmt.one_line(danger.scenario, 30)}, call {danger.call + 1}",
        fmt.one_line(danger.difference, 120),
        "" if danger.proven else "not explained",
    ]
    return Text.assemble(
        (f"{number}. {where}", "bold"), f"  {danger.kind}  ", (" · ".join(fact for fact in facts if fact), "dim")
    )


def provoked_findings(session: Session) -> Iterator[RenderableType]:
    """Show in one line each what was provoked, and what came of it."""
    tried = provoked(session)
    if not tried:
        return
    yield section("Provoked")
    rows = Table.grid(padding=(0, GAP, 0, 0))
    for each in tried:
        style = "red" if each.scenario.outcome is Outcome.COMPILE_FAILED else ""
        rows.add_row(fmt.one_line(each.scenario.name, _NAME), Text(fmt.one_line(each.answer, 300), style=style))
    yield item(rows)
