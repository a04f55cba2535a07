"""`ctrace accuracy`: which line changed the numbers."""

import os
import re
from enum import StrEnum
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace accuracy model.py                 is a kernel wrong, and which line?
  ctrace accuracy model.py --train         the backward, too
  ctrace accuracy net.py:Net --input "float32[8,128]" --vary "0=1,64"
  ctrace accuracy model.py --against eager    also other roundings
  ctrace accuracy model.py --promises      the same call twice, a row alone
  ctrace accuracy model.py --steps 20      training: where do the runs part?
  ctrace accuracy train.py -- --epochs 1   inside a program
  ctrace accuracy model.py --json --fail-on culprit       for CI
"""


class Against(StrEnum):
    """What counts as a difference."""

    FLOAT64 = "float64"
    EAGER = "eager"


class FailOn(StrEnum):
    """When to exit with 1."""

    CULPRIT = "culprit"


AgainstOption = Annotated[
    Against,
    typer.Option(
        "--against",
        help="float64: what is further off than eager's rounding explains. eager: also what differs from eager, and "
        "is no less exact.",
    ),
]
PromisesOption = Annotated[
    bool,
    typer.Option("--promises", help="Also make the same call twice, and call with one row of the batch alone."),
]
StepsOption = Annotated[
    int,
    typer.Option(
        "--steps",
        metavar="N",
        min=0,
        show_default=False,
        help="Also take N steps of an optimizer, with --train: eager, compiled and float64 side by side.",
    ),
]
FailOnOption = Annotated[FailOn | None, typer.Option("--fail-on", help="Exit with 1 if there is a culprit.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop after SECONDS, without a result."),
]
Target = Annotated[
    str | None,
    typer.Argument(help="A model: a file, file.py:name or pkg.mod:name; or a program.", show_default=False),
]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the program.", show_default=False)]
MaxBytesOption = Annotated[
    str | None,
    typer.Option(
        "--max-bytes",
        metavar="SIZE",
        help="Compare no kernel whose inputs have more, such as 500M or 2G; by default a sixteenth of the free memory.",
    ),
]

_BYTES = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?)i?B?", re.IGNORECASE)


def bytes_of(text: str | None) -> int | None:
    """Return the bytes of `500M`, `2G` or `1000`; None: no limit.

    Raises:
        TargetError: it is no size.
    """
    from ctrace.inspector.errors import TargetError

    if text is None:
        return None
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise TargetError(f"--max-bytes {text}: not a size", "write it as 500M or 2G")
    return int(float(match["number"]) * 1000 ** " KMGT".index(match["unit"].upper() or " "))


def accuracy(
    target: Target = None,
    args: Arguments = None,
    against: AgainstOption = Against.FLOAT64,
    promises: PromisesOption = False,
    fail_on: FailOnOption = None,
    json: opt.Json = False,
    output: opt.Output = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    train: opt.Train = False,
    steps: StepsOption = 0,
    max_bytes: MaxBytesOption = None,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    timeout: TimeoutOption = None,
    fake: opt.NoFake = False,
) -> None:
    """Find the line that changed the numbers: kernels beside eager."""
    opt.refuse_fake("accuracy", "without weights, there are no numbers to compare", fake=fake)
    from ctrace.cli.console import check_output
    from ctrace.cli.progress import progress
    from ctrace.cli.show import show_document
    from ctrace.inspector.errors import Exit, TargetError
    from ctrace.inspector.facts.accuracy_facts import AccuracyDocument
    from ctrace.inspector.features.accuracy.numeric_comparison import accuracy_of
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.target import ProgramTarget, resolve
    from ctrace.reports.terminal.accuracy_screen import accuracy_screen

    check_output(output)
    if target is None:
        raise TargetError(
            "no model to compare: kernels run here, and are not read from a run", "ctrace accuracy model.py"
        )
    options = Options(
        tuple(inputs or ()),
        tuple(vary or ()),
        # An optimizer needs gradients.
        train=train or bool(steps),
        mode=mode,
        dynamic=dynamic,
        fullgraph=fullgraph,
    )
    most = bytes_of(max_bytes)
    is_program = isinstance(resolve(target, args or (), has_inputs=bool(options.inputs)), ProgramTarget)
    with progress(is_program=is_program) as shown:
        # A program has the terminal to itself.
        if not is_program:
            shown.say("comparing kernels")
        found = accuracy_of(
            target,
            options,
            args=args or (),
            against_eager=against is Against.EAGER,
            promises=promises,
            steps=steps,
            max_bytes=most,
            timeout=timeout,
            observe=lambda: shown.observe(None),
            output=shown.child_output,
        )
    folder = os.getcwd()  # noqa: PTH109 - a text, as in a session
    show_document(AccuracyDocument(target, found, folder), output, json=json, screen=accuracy_screen)
    # First, since what a program did not reach was not compared.
    if found.program not in (None, "exit code 0"):
        raise typer.Exit(Exit.PROGRAM)
    if fail_on is not None and found.culprits:
        raise typer.Exit(Exit.WORSE)
