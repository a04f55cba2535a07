"""`ctrace recompiles`: why functions recompile, whether they keep recompiling, and how to fix it."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

EXAMPLES = """\b
Examples:
  ctrace recompiles                     recompilations by cause
  ctrace recompiles model.py --provoke  try common causes
  ctrace recompiles --vary "0=1,2,8" model.py
  ctrace recompiles --explain size      explain a kind of cause, without a run
"""

All = Annotated[bool, typer.Option("--all", help="Show every cause and every cache entry.")]
Explained = Annotated[
    str | None,
    typer.Option("--explain", metavar="KIND", help="Explain a kind of cause, such as size or identity, without a run."),
]


@on_a_run
def recompiles(
    request: Request,
    all_of_it: All = False,
    explained: Explained = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show why functions recompile, and what to change."""
    if explained is not None:
        _explain(explained, json=json, output=output)
        return
    from ctrace.cli.show import show_answer
    from ctrace.inspector.diagnosis.recompiles_document import RecompilesDocument, recompiles_document

    def screen(document: RecompilesDocument, width: int) -> opt.Screen:
        from ctrace.reports.terminal.recompiles_screen import recompiles_screen

        return recompiles_screen(document, width, all_of_it=all_of_it)

    # With advice, as `ctrace explain` gives it after the same trials.
    show_answer(request, output, json=json, document=recompiles_document, screen=screen, has_advice=True)


def _explain(name: str, *, json: bool, output: Path | None) -> None:
    from ctrace.cli.console import check_output
    from ctrace.cli.show import show_document
    from ctrace.inspector.findings.breaks.advice_lookup import cause_lesson
    from ctrace.reports.terminal.findings_screen import cause_lesson_screen

    check_output(output)
    show_document(cause_lesson(name), output, json=json, screen=lambda found, _width: cause_lesson_screen(found))
