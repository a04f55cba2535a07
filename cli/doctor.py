"""`ctrace doctor`: which torch, triton, compiler and device are here, and does every hook find its place?"""

from typing import TYPE_CHECKING

from ctrace.cli import options as opt

if TYPE_CHECKING:
    from ctrace.inspector.doctor import Finding

EXAMPLES = """\b
Examples:
  ctrace doctor
  ctrace doctor --json
"""


def doctor(json: opt.Json = False, output: opt.Output = None) -> None:
    """Say what ctrace found on this machine, and probe every hook into torch."""
    import json as jsonlib

    from ctrace.cli.console import write_report
    from ctrace.inspector.doctor import examine

    findings = examine()
    if json:
        write_report(jsonlib.dumps([_data(finding) for finding in findings], indent=2) + "\n", output)
    else:
        _print(findings)


def _data(finding: "Finding") -> dict[str, object]:
    return {"name": finding.name, "ok": finding.ok, "found": finding.found, "todo": finding.todo}


def _print(findings: "list[Finding]") -> None:
    from rich.table import Table
    from rich.text import Text

    from ctrace.cli.console import console
    from ctrace.reports.format import plain

    table = Table.grid(padding=(0, 2))
    for finding in findings:
        mark = Text("ok", style="green") if finding.ok else Text("!!", style="bold red")
        table.add_row(mark, Text(finding.name, style="bold"), Text(plain(finding.found)))
        if finding.todo and not finding.ok:
            table.add_row("", "", Text(f"→ {plain(finding.todo)}", style="green"))
    console().print(table, highlight=False)
