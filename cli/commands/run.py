"""`ctrace run`: run any program as Python would, and record what torch.compile does in it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.runs.target import ProgramTarget

EXAMPLES = """\b
Put options of ctrace before the program; the rest goes to the program.

\b
Examples:
  ctrace run train.py --epochs 1
  ctrace run -m pkg.tool --help
  ctrace run --json -o report.json train.py
  ctrace run --target h100 train.py    code for a GPU you do not have
"""


def run(
    context: typer.Context,
    module: Annotated[str | None, typer.Option("-m", metavar="MODULE", help="Run a module, as python -m does.")] = None,
    json: opt.Json = False,
    markdown: opt.Markdown = False,
    output: opt.Output = None,
    build: opt.Build = False,
    gpu: opt.TargetGpu = None,
    world: opt.World = None,
    mesh: opt.Mesh = None,
    rank: opt.Rank = None,
    assume: opt.Assume = None,
    timeout: opt.Timeout = None,
    name: opt.Name = None,
) -> None:
    """Run a program unchanged, and report on stderr what torch.compile did."""
    from ctrace.cli.console import check_output, say_left, say_unsaved
    from ctrace.cli.run_request import Request, refuse_name
    from ctrace.cli.show import Format, exit_code, show, shown_format
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.child import ChildProcess
    from ctrace.inspector.runs.options import check_options
    from ctrace.inspector.runs.run_capture import capture
    from ctrace.inspector.runs.store import Store

    form = shown_format(json=json, markdown=markdown)
    check_output(output)
    target, gpu_name = _target(module, context.args), _gpu(gpu, build=build)
    # The program keeps its stdout, unless the report itself goes there.
    stdout = 2 if form is not Format.TERMINAL and output is None else None
    store = Store()
    refuse_name(Request(module or context.args[0], name=name), store)
    options = Options(build=build, gpu=gpu_name, world=world, mesh=mesh, rank=rank, assume=tuple(assume or ()))
    check_options(target, options)
    child = ChildProcess(has_terminal=True)
    try:
        session = capture(target, options, store=store, timeout=timeout, stdout=stdout, name=name, child=child)
    finally:
        say_unsaved(store)
    say_left(child.left)
    show(session, form, output, on_stderr=True)
    raise typer.Exit(exit_code(session))


def separated(words: list[str]) -> list[str]:
    """Put `--` after `run ... -m MODULE`, so that the rest goes to the module, as with python -m."""
    if words[:1] != ["run"]:
        return words
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] == "-m":
            return [*words[: at + 2], "--", *words[at + 2 :]]
        # `--timeout 5` takes two words, `--timeout=5` is one.
        at += 2 if words[at] in _WITH_VALUE else 1
    return words


_WITH_VALUE = ("-o", "--output", "--timeout", "--target", "--name", "--world", "--mesh", "--rank", "--assume")


def _gpu(text: str | None, *, build: bool) -> str | None:
    """Return the GPU of `--target`.

    Raises:
        TargetError: it is unknown, there are several, or --build is set too.
    """
    from ctrace.cli.run_request import Request, gpu_names
    from ctrace.inspector.errors import TargetError

    names = gpu_names(Request(options={"gpu": text, "build": build}))
    if len(names) > 1:
        todo = "name one; ctrace kernels, explain and fusion compare several"
        raise TargetError(f"--target {text}: ctrace run takes one target", todo)
    return next(iter(names.values()), None)


def _target(module: str | None, words: list[str]) -> "ProgramTarget":
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.target import ProgramTarget, program

    if module is not None:
        return ProgramTarget(None, module, tuple(words))
    if not words:
        raise TargetError("ctrace run needs a program", "name one: ctrace run train.py, or ctrace run -m pkg.tool")
    return program(Path(words[0]), words[1:], words[0])
