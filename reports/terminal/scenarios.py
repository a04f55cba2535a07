"""What scenarios showed: results that differ from eager, and what was provoked."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.model.scenarios import Outcome
from ctrace.inspector.model.session import Session
from ctrace.inspector.scenarios.view import not_compared, provoked
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import GAP, item, more, section
from ctrace.reports.text.comparison import rounded

_NAME = 24
_REASONS = 2
_PROVOKED = 10


def not_compared_lines(session: Session) -> Iterator[RenderableType]:
    """Say which scenarios were not compared with eager, and why."""
    reasons = not_compared(session)
    for why, names in list(reasons.items())[:_REASONS]:
        shown = fmt.listed((fmt.one_line(name, 30) for name in names), 4)
        yield item(Text(f"\nNot compared with eager in {shown}: {fmt.one_line(why, 200)}.", style="yellow"))
    yield from more(len(reasons), "reason", most=_REASONS)
    explained = list(rounded(session))
    for sentence in explained[:_REASONS]:
        yield item(Text(f"\n{fmt.one_line(sentence, 240)}", style="dim"))
    yield from more(len(explained), "comparison", most=_REASONS)


def provoked_findings(session: Session) -> Iterator[RenderableType]:
    """Show in one line each what was provoked, and what came of it."""
    tried = provoked(session)
    if not tried:
        return
    yield section("Provoked")
    rows = Table.grid(padding=(0, GAP, 0, 0))
    for each in tried[:_PROVOKED]:
        style = "red" if each.scenario.outcome is Outcome.COMPILE_FAILED else ""
        rows.add_row(fmt.one_line(each.scenario.name, _NAME), Text(fmt.one_line(each.answer, 120), style=style))
    yield item(rows)
    yield from more(len(tried), "scenario", most=_PROVOKED)
