"""What torch printed while it autotuned, for `ctrace time`."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.time.timing_model import Timings
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import Verbatim, section

_TABLE = "AUTOTUNE "
"""How torch's table of choices begins (2.11 to 2.15, _inductor/select_algorithm.py)."""


def autotuning_lines(timings: Timings, *, verbose: bool) -> Iterator[RenderableType]:
    """Show torch's tables, or say how many there are."""
    tables = sum(text.startswith(_TABLE) for each in timings.configurations for text in each.printed)
    if tables and not verbose:
        text = f"\nTorch autotuned {fmt.count(tables, 'operation')}: -v shows what it printed."
        yield Text(text, style="dim")
    for each in timings.configurations if verbose else ():
        if each.printed:
            yield section(f"Printed by torch while it autotuned {fmt.one_line(each.configuration.name, 60)}")
            yield Verbatim(Text(fmt.plain("".join(each.printed)).rstrip()))
