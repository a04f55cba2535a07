"""`ctrace explain`: run a model or a program, and show what torch.compile did to it."""

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run, run_of, session_of

if TYPE_CHECKING:
    from pathlib import Path

    from ctrace.inspector.diagnosis.explain_document import ExplainDocument
    from ctrace.inspector.diagnosis.side_by_side_document import SideBySideDocument
    from ctrace.inspector.facts.session import Session

# Commands import what they need when they run, so that `ctrace --help` and saved runs start fast.

# In all commands: behind a line of `\b`, the help keeps the lines as they are.
EXAMPLES = """\b
Examples:
  ctrace explain model.py                  a file with `model` and `inputs`
  ctrace explain net.py:Encoder --input "float32[8,n]" --train
  ctrace explain pkg.models:tiny --vary "0=1,2,8" --json -o report.json
  ctrace explain train.py -- --epochs 1    a program that calls torch.compile
  ctrace explain model.py --fast           breaks and recompilations only
  ctrace explain model.py --name before    keep the run as `before`
  ctrace explain model.py --target h100    code for a GPU you do not have
  ctrace explain                           show the last run again
  ctrace explain job.log --follow          a log that a job still writes
  zcat job.log.gz | ctrace explain -       a log from standard input
"""


Follow = Annotated[
    bool, typer.Option("--follow", help="Read a log while a job writes it; Ctrl-C ends this and shows the report.")
]


@on_a_run
def explain(
    request: Request,
    json: opt.Json = False,
    markdown: opt.Markdown = False,
    output: opt.Output = None,
    verbose: opt.Verbose = False,
    fast: opt.Fast = False,
    name: opt.Name = None,
    follow: Follow = False,
) -> None:
    """Show what torch.compile did to a model, why, and what to change."""
    from ctrace.cli.console import check_output
    from ctrace.cli.show import exit_code, show, shown_format

    form = shown_format(json=json, markdown=markdown)
    if follow:
        check_output(output)
        show(_followed(request), form, output, run_of(request), verbose=verbose)
        return
    request = replace(request, name=name)
    request = _only_dynamo(request) if fast else request
    if _side_by_side(request, output, json=json, markdown=markdown):
        return
    check_output(output)
    # Trials would take longer than all that --fast saves.
    session, is_new = session_of(request, check_advice=not fast, compare_speed=True)
    # Only when the target is read does it show whether it is a saved run.
    _refuse_fast_without_run(fast=fast, is_new=is_new)
    show(session, form, output, "" if is_new else run_of(request), verbose=verbose)
    if is_new:
        raise typer.Exit(exit_code(session))


def _followed(request: Request) -> "Session":
    """Read a growing log.

    Raises:
        TargetError: the target is no file, or compressed.
        RunError: it cannot be read.
    """
    from functools import partial
    from pathlib import Path

    from ctrace.cli.incoming import followed
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.log.files import is_compressed
    from ctrace.inspector.runs.target import holds

    path = Path(request.target or "")
    if not request.target or not holds(path.is_file):
        raise TargetError("--follow needs the log that a job writes", "name the file in the folder of TORCH_TRACE")
    if holds(partial(is_compressed, path)):
        raise TargetError(f"{path} is compressed, so no job writes it", "leave --follow out")
    return followed(path)


def _only_dynamo(request: Request) -> Request:
    """Leave out everything after Dynamo.

    Raises:
        TargetError: another option needs a backend.
    """
    from ctrace.inspector.errors import TargetError

    if request.options.get("gpu"):
        what = "--fast and --target exclude each other"
        raise TargetError(what, "leave one out: --fast runs no backend")
    # Inductor's guards come from lowering graphs, which is most of what this option saves.
    return replace(request, options={**request.options, "fast": True, "trace_only": True, "inductor_guards": False})


def _refuse_fast_without_run(*, fast: bool, is_new: bool) -> None:
    """Refuse `--fast` for a saved run.

    Raises:
        TargetError: nothing was run.
    """
    from ctrace.inspector.errors import TargetError

    if fast and not is_new:
        raise TargetError(
            "--fast needs a new run, but this command reads a saved one", "name a model file, or leave it out"
        )


def _side_by_side(request: Request, output: "Path | None", *, json: bool, markdown: bool) -> bool:
    """Compare several GPUs if `--target` names several."""
    from ctrace.cli.sidebyside import shown_side_by_side
    from ctrace.inspector.diagnosis.explain_document import explain_document

    def screen(found: "SideBySideDocument[ExplainDocument]", width: int) -> opt.Screen:
        from ctrace.reports.terminal.side_by_side_screen import explained_side_by_side

        return explained_side_by_side(found, width)

    others = {"--markdown": markdown, "--name": request.name}
    return shown_side_by_side(request, output, json=json, document=explain_document, screen=screen, others=others)
