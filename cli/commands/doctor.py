"""`ctrace doctor`: show torch, triton, compiler and device of this machine, and probe every hook into torch."""

from typing import TYPE_CHECKING

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.self_check import ProbeResult

EXAMPLES = """\b
Examples:
  ctrace doctor
  ctrace doctor --json
"""


def doctor(json: opt.Json = False, output: opt.Output = None) -> None:
    """Show what ctrace finds on this machine, and probe every hook into torch."""
    from ctrace.cli.show import show_document
    from ctrace.inspector.self_check import examine

    show_document(examine(), output, json=json, screen=_screen)


def _screen(findings: "tuple[ProbeResult, ...]", _width: int) -> opt.Screen:
    from rich.table import Table
    from rich.text import Text

    from ctrace.reports.format import one
    from ctrace.reports.terminal.widgets import item, section

    table = Table.grid(padding=(0, 2))
    for finding in (each for each in findings if not each.is_difference):
        mark = Text("ok", style="green") if finding.ok else Text("!!", style="bold red")
        table.add_row(mark, Text(finding.name, style="bold"), Text(one(finding.found)))
        if finding.todo and not finding.ok:
            table.add_row("", "", Text(f"→ {one(finding.todo)}", style="green"))
    yield table
    differences = [each for each in findings if each.is_difference]
    if differences:
        yield section("What differs in this torch")
    for each in differences:
        yield item(Text.assemble((each.name, "bold"), f": {one(each.found)}"))
