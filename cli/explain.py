"""`ctrace explain`: run a model or a program, and say what torch.compile did to it."""

import typer

from ctrace.cli import options as opt
from ctrace.cli.capturing import Request, on_a_run, session_of

# What a command needs is imported when it runs: neither `ctrace --help` nor a saved run shall wait for all of it.

EXAMPLES = """\b
Examples:
  ctrace explain model.py                  a file with `model` and `inputs`
  ctrace explain net.py:Encoder --input "float32[8,n]" --train
  ctrace explain pkg.models:tiny --vary "0=1,2,8" --json -o report.json
  ctrace explain train.py -- --epochs 1    a program that compiles by itself
  ctrace explain                           the last run again
"""


@on_a_run
def explain(
    request: Request, json: opt.Json = False, markdown: opt.Markdown = False, output: opt.Output = None
) -> None:
    """Say what torch.compile did to a model, why, and what to change."""
    from ctrace.cli.console import check_output
    from ctrace.cli.show import exit_code, show, shown_format

    form = shown_format(json=json, markdown=markdown)
    check_output(output)
    session, is_new = session_of(request)
    show(session, form, output)
    if is_new:
        raise typer.Exit(exit_code(session))
