"""`ctrace breaks`: where graphs break, what each break costs, and how to fix it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.facts.findings import Owner

EXAMPLES = """\b
Examples:
  ctrace breaks                    breaks of the last run, costliest first
  ctrace breaks model.py --all     run a model; show all paths to each break
  ctrace breaks --owner user       only breaks in your own code
  ctrace breaks --explain GB0170   explain a kind of break, without a run
"""

All = Annotated[bool, typer.Option("--all", help="Show every break, and every path that led to it.")]
OwnedBy = Annotated[
    str | None,
    typer.Option("--owner", metavar="OWNER", help="Show only breaks in code of OWNER: user, library or torch."),
]
Explained = Annotated[
    str | None,
    typer.Option(
        "--explain", metavar="ID", help="Explain a kind of break, such as GB0170, loop or print, without a run."
    ),
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
    """Show where graphs break, what it costs, and what to change."""
    # First, since it needs neither a target nor a run.
    if explained is not None:
        _explain(explained, json=json, output=output)
        return
    from ctrace.cli.show import show_answer
    from ctrace.inspector.diagnosis.breaks_document import BreaksDocument, breaks_document

    chosen = _owner(owner)

    def screen(document: BreaksDocument, width: int) -> opt.Screen:
        from ctrace.reports.terminal.breaks_screen import breaks_screen

        return breaks_screen(document, width, all_paths=all_paths)

    show_answer(
        request,
        output,
        json=json,
        document=lambda session: breaks_document(session, chosen),
        screen=screen,
        # So that a break has the advice that `ctrace explain` gives, after the same trials.
        has_advice=True,
    )


def _owner(name: str | None) -> "Owner | None":
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.facts.findings import Owner

    if name is None:
        return None
    try:
        return Owner(name.lower())
    except ValueError:
        raise TargetError(f"--owner {name}: there is no such owner", f"choose one of {', '.join(Owner)}") from None


def _explain(name: str, *, json: bool, output: Path | None) -> None:
    from ctrace.cli.console import check_output
    from ctrace.cli.show import show_document
    from ctrace.inspector.findings.breaks.advice_lookup import lesson
    from ctrace.reports.terminal.findings_screen import lesson_screen

    check_output(output)
    show_document(lesson(name), output, json=json, screen=lambda found, _width: lesson_screen(found))
