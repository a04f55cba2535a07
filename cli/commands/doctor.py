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
    from ctrace.cli.console import write_report
    from ctrace.inspector.self_check import examine, known_differences
    from ctrace.reports.escape import json_document

    findings, differences = examine(), known_differences()
    if json:
        write_report(json_document([_data(finding) for finding in (*findings, *differences)]), output)
    else:
        _print(findings, differences)


def _data(finding: "ProbeResult") -> dict[str, object]:
    return {"name": finding.name, "ok": finding.ok, "found": finding.found, "todo": finding.todo}


def _print(findings: "list[ProbeResult]", differences: "list[ProbeResult]") -> None:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from ctrace.cli.console import console
    from ctrace.reports.format import one
    from ctrace.reports.terminal.widgets import item, render, section

    table = Table.grid(padding=(0, 2))
    for finding in findings:
        mark = Text("ok", style="green") if finding.ok else Text("!!", style="bold red")
        table.add_row(mark, Text(finding.name, style="bold"), Text(one(finding.found)))
        if finding.todo and not finding.ok:
            table.add_row("", "", Text(f"→ {one(finding.todo)}", style="green"))
    lines: list[RenderableType] = [table]
    if differences:
        lines += [section("What differs in this torch")]
        lines += [item(Text.assemble((each.name, "bold"), f": {one(each.found)}")) for each in differences]
    render(lines, console())
