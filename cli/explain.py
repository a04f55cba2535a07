"""`ctrace explain`: run a model or a program, and say what torch.compile did to it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import options as opt

if TYPE_CHECKING:
    from ctrace.inspector.model import Session
    from ctrace.inspector.order import Options
    from ctrace.inspector.store import Store
    from ctrace.inspector.target import Resolved

# What a command needs is imported when it runs: neither `ctrace --help` nor a saved run shall wait for all of it.

EXAMPLES = """\b
Examples:
  ctrace explain model.py                  a file with `model` and `inputs`
  ctrace explain net.py:Encoder --input "float32[8,n]" --train
  ctrace explain pkg.models:tiny --vary "0=1,2,8" --json -o report.json
  ctrace explain train.py -- --epochs 1    a program that compiles by itself
  ctrace explain                           the last run again
"""


def explain(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A file, file.py:name, pkg.mod:name, a saved run or a TORCH_TRACE log. Default: the last run."
        ),
    ] = None,
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of a program.")] = None,
    json: opt.Json = False,
    markdown: opt.Markdown = False,
    output: opt.Output = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    backend: opt.Backend = None,
    build: opt.Build = False,
    timeout: opt.Timeout = None,
) -> None:
    """Say what torch.compile did to a model, why, and what to change."""
    from ctrace.cli.console import check_output
    from ctrace.cli.show import exit_code, show, shown_format
    from ctrace.inspector.order import Options
    from ctrace.inspector.store import Store

    form = shown_format(json=json, markdown=markdown)
    check_output(output)
    store = Store()
    saved = _saved(target, store)
    if saved is not None:
        show(saved, form, output)
        return
    options = Options(tuple(inputs or ()), tuple(vary or ()), train, mode, dynamic, fullgraph, backend, build)
    session = _captured(str(target), args or [], options, store, timeout)
    show(session, form, output)
    raise typer.Exit(exit_code(session))


def _saved(target: str | None, store: "Store") -> "Session | None":
    """Read what was captured earlier, if that is what the target names."""
    from ctrace.inspector.session import load, load_log, only_log

    if target is None:
        return load(store.load())
    path = Path(target)
    if path.is_file():
        return load_log(path) if path.suffix == ".log" else None
    if (store.root / target).is_dir() or (path / "run.json").is_file():
        return load(store.load(target))
    return load_log(only_log(path)) if path.is_dir() else None


def _captured(target: str, args: list[str], options: "Options", store: "Store", timeout: float | None) -> "Session":
    """Run the target, once the command line is known to make sense."""
    from ctrace.cli.progress import progress
    from ctrace.inspector.run import capture
    from ctrace.inspector.target import resolve

    resolved = resolve(target, args, has_inputs=bool(options.inputs))
    _check(resolved, options)
    with progress() as shown:
        talk = shown.child_output
        return capture(resolved, options, store=store, timeout=timeout, stdout=talk, stderr=talk, observe=shown.observe)


def _check(resolved: "Resolved", options: "Options") -> None:
    """Find mistakes in the command line before a process is started for it."""
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.inputs import parse_input, parse_vary
    from ctrace.inspector.order import Options
    from ctrace.inspector.target import ProgramTarget

    if isinstance(resolved, ProgramTarget) and options != Options(build=options.build):
        what = f"{resolved.path} is a program: it makes its own inputs and calls torch.compile itself"
        raise TargetError(what, "leave out all options but --build and --timeout, or name an object: file.py:name")
    for text in options.inputs:
        parse_input(text)
    for text in options.vary:
        parse_vary(text)
