"""`ctrace runs`: list saved runs, and let go of old ones."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import options as opt

if TYPE_CHECKING:
    from ctrace.inspector.store import Run

EXAMPLES = """\b
Examples:
  ctrace runs               list them, the last one at the bottom
  ctrace runs --prune 3     keep only the last three
  ctrace explain NAME       show one again
"""


def runs(
    prune: Annotated[
        int | None, typer.Option("--prune", metavar="KEEP", min=0, help="Delete all but the last KEEP.")
    ] = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """List the runs kept in .ctrace/."""
    import json as jsonlib

    from ctrace.cli.console import say, write_report
    from ctrace.inspector.store import Store

    store = Store()
    if prune is not None:
        gone = store.prune(prune)
        say(f"Deleted {len(gone)} of {len(gone) + len(store.runs())} runs")
        return
    found = store.runs()
    for what in store.damaged():
        say(f"ctrace: {what}; it is passed over")
    if json:
        write_report(jsonlib.dumps([_data(run) for run in found], indent=2) + "\n", output)
    elif found:
        _print(found)
    else:
        say(f"No runs in {store.root} yet. Make one: ctrace explain model.py")


def _data(run: "Run") -> dict[str, object]:
    target = {"path": run.target.path, "name": run.target.name, "args": list(run.target.args)}
    status = "running" if run.is_active else run.status
    return {"name": run.name, "created": run.created, "status": status, "target": target, **run.summary}


def _print(found: "list[Run]") -> None:
    import time

    from rich.table import Table
    from rich.text import Text

    from ctrace.cli.console import console
    from ctrace.reports.format import count, plain, seconds

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in ("run", "when", "verdict", "what", "took"):
        table.add_column(column, no_wrap=column in ("run", "when", "took"), overflow="ellipsis")
    for run in found:
        summary = run.summary
        verdict = str(summary.get("verdict", "running" if run.is_active else "cut off")).replace("_", " ")
        what = ", ".join(
            count(int(summary[f"{noun}s"]), noun) for noun in ("graph", "break", "recompile") if f"{noun}s" in summary
        )
        if summary.get("target_gpu"):
            what += f", for {plain(str(summary['target_gpu']))}"
        when = time.strftime("%d %b %H:%M", time.localtime(run.created))
        table.add_row(Text(plain(run.name)), when, verdict, what, seconds(run.seconds) if run.seconds else "")
    console().print(table, highlight=False)
