"""The table of all jobs of a check."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.errors import Exit
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.verdict import CheckedJob, CheckOutcome
from ctrace.reports import format as fmt
from ctrace.reports.gate.gate_words import VERDICTS, gravest_first
from ctrace.reports.terminal.widgets import item, section, table

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
    shown = every if len(every) <= MOST_JOBS else [one for one in every if one.exit is not Exit.DONE]
    yield section("Jobs")
    if shown:
        yield item(_table(shown, width))
    if passed := len(every) - len(shown):
        passing = "1 job that passes" if passed == 1 else f"{fmt.count(passed, 'job')} that pass"
        yield Text(f"  and {passing}" if shown else f"  {passing}")
    if any(UNKNOWN in cells(one) for one in shown):
        yield Text(f"  {UNKNOWN} not measured", style="dim")


def _table(shown: list[CheckedJob], width: int) -> RenderableType:
    rows = table("job", *_COLUMNS)
    for column in rows.columns[1:-1]:
        column.justify = "right"
    most = max(width - _OTHERS - max(len(result(one)) for one in shown), 12)
    for one in shown:
        name = _end(fmt.one_line(str(one.job)), most)
        style = "green" if one.exit is Exit.DONE else "red"
        rows.add_row(name, *cells(one), Text(result(one), style=style))
    return rows


def _end(name: str, most: int) -> str:
    """Cut a long name at its front; the scenario and target at its end tell jobs apart."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def cells(one: CheckedJob) -> tuple[str, str, str, str, str]:
    """Write graphs, breaks, recompiles, coverage and seconds; for a failed program they are unknown, not 0."""
    state = one.state if one.exit is not Exit.PROGRAM else None
    counts = state.counts if state else {}
    of_breaks = [counts[each] for each in _BREAKS if each in counts]
    breaks = str(sum(of_breaks)) if of_breaks else UNKNOWN
    recompiles = str(counts.get(Count.RECOMPILES, UNKNOWN))
    coverage = UNKNOWN if state is None or state.coverage is None else f"{int(state.coverage)}%"
    seconds = "reused" if one.is_reused else fmt.seconds(one.seconds)
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
