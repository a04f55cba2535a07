"""`ctrace recompiles`: why functions were compiled again, whether it will settle, and what to write instead."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import options as opt
from ctrace.cli.capturing import Request, on_a_run, session_of

EXAMPLES = """\b
Examples:
  ctrace recompiles                     those of the last run, by cause
  ctrace recompiles model.py --provoke  try what often compiles again
  ctrace recompiles --vary "0=1,2,8" model.py
  ctrace recompiles --explain size      what a kind of cause is; needs no run
"""

All = Annotated[bool, typer.Option("--all", help="Show every cause, and every entry of each cache.")]
Explained = Annotated[
    str | None,
    typer.Option("--explain", metavar="KIND", help="Explain a kind of cause, such as size or identity, and stop."),
]


@on_a_run
def recompiles(
    request: Request,
    all_of_it: All = False,
    explained: Explained = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show why functions were compiled again, and what to change."""
    from ctrace.cli.console import check_output, write_report
    from ctrace.cli.show import exit_code, show_screen

    check_output(output)
    if explained is not None:
        _explain(explained, json=json, output=output)
        return
    session, is_new = session_of(request)
    if json:
        from ctrace.reports.json_recompiles import render_recompiles_json

        write_report(render_recompiles_json(session), output)
    else:
        from ctrace.reports.terminal.recompiles import recompiles_screen

        show_screen(lambda width: recompiles_screen(session, width, all_of_it=all_of_it), output)
    if is_new:
        raise typer.Exit(exit_code(session))


def _explain(name: str, *, json: bool, output: Path | None) -> None:
    from ctrace.cli.console import write_report
    from ctrace.cli.show import show_screen
    from ctrace.inspector.views.lessons import cause_lesson

    found = cause_lesson(name)
    if json:
        from ctrace.reports.json import render_cause_lesson_json

        write_report(render_cause_lesson_json(found), output)
    else:
        from ctrace.reports.terminal.lessons import cause_lesson_screen

        show_screen(lambda _width: cause_lesson_screen(found), output)
