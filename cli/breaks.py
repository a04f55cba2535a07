"""`ctrace breaks`: where graphs break, what each break costs, and what to write instead."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import options as opt
from ctrace.cli.capturing import Request, on_a_run, session_of

if TYPE_CHECKING:
    from ctrace.inspector.findings import Owner

EXAMPLES = """\b
Examples:
  ctrace breaks                    those of the last run, the costliest first
  ctrace breaks model.py --all     run a model; show all paths to each break
  ctrace breaks --owner user       leave out those inside of libraries
  ctrace breaks --explain GB0170   what a kind of break is; needs no run
"""

All = Annotated[bool, typer.Option("--all", help="Show every break, and every path that led to it.")]
OwnedBy = Annotated[
    str | None, typer.Option("--owner", metavar="OWNER", help="Only breaks in code of: user, library or torch.")
]
Explained = Annotated[
    str | None,
    typer.Option("--explain", metavar="ID", help="Explain a kind of break, such as GB0170, loop or print, and stop."),
]


@on_a_run
def breaks(
    request: Request,
    all_paths: All = False,
    owner: OwnedBy = None,
    explained: Explained = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show where graphs break, by what each break costs, and what to change."""
    from ctrace.cli.console import check_output
    from ctrace.cli.show import exit_code

    check_output(output)
    if explained is not None:
        _explain(explained, json=json, output=output)
        return
    chosen = _owner(owner)
    session, is_new = session_of(request)
    if json:
        from ctrace.cli.console import write_report
        from ctrace.reports.json import render_breaks_json

        write_report(render_breaks_json(session, chosen), output)
    else:
        from ctrace.cli.show import show_screen
        from ctrace.reports.terminal.breaks import breaks_screen

        show_screen(lambda width: breaks_screen(session, width, chosen, all_paths=all_paths), output)
    if is_new:
        raise typer.Exit(exit_code(session))


def _owner(name: str | None) -> "Owner | None":
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.findings import Owner

    if name is None:
        return None
    try:
        return Owner(name.lower())
    except ValueError:
        raise TargetError(f"--owner {name}: there is no such owner", f"choose one of {', '.join(Owner)}") from None


def _explain(name: str, *, json: bool, output: Path | None) -> None:
    from ctrace.inspector.views.lessons import lesson

    found = lesson(name)
    if json:
        from ctrace.cli.console import write_report
        from ctrace.reports.json import render_lesson_json

        write_report(render_lesson_json(found), output)
    else:
        from ctrace.cli.show import show_screen
        from ctrace.reports.terminal.breaks import lesson_screen

        show_screen(lambda _width: lesson_screen(found), output)
