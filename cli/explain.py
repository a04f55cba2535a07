"""`ctrace explain`: run a model or a program, and say what torch.compile did to it."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import options as opt
from ctrace.cli.console import check_output, progress
from ctrace.cli.show import exit_code, show, shown_format
from ctrace.inspector.errors import TargetError
from ctrace.inspector.inputs import parse_input, parse_vary
from ctrace.inspector.model import Session
from ctrace.inspector.order import Options
from ctrace.inspector.session import capture, load, load_log, only_log
from ctrace.inspector.store import Store
from ctrace.inspector.target import ProgramTarget, Resolved, resolve

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
    form = shown_format(json=json, markdown=markdown)
    check_output(output)
    store = Store()
    saved = _saved(target, store)
    if saved is not None:
        show(saved, form, output)
        return
    asked = Options(tuple(inputs or ()), tuple(vary or ()), train, mode, dynamic, fullgraph, backend, build)
    resolved = resolve(str(target), args or (), has_inputs=bool(inputs))
    _check(resolved, asked)
    with progress() as shown:
        talk = shown.child_output
        observe = shown.observe
        session = capture(resolved, asked, store=store, timeout=timeout, stdout=talk, stderr=talk, observe=observe)
    show(session, form, output)
    raise typer.Exit(exit_code(session))


def _saved(target: str | None, store: Store) -> Session | None:
    """Read what was captured earlier, if that is what the target names."""
    if target is None:
        return load(store.load())
    path = Path(target)
    if path.is_file():
        return load_log(path) if path.suffix == ".log" else None
    if (store.root / target).is_dir() or (path / "run.json").is_file():
        return load(store.load(target))
    return load_log(only_log(path)) if path.is_dir() else None


def _check(resolved: Resolved, asked: Options) -> None:
    """Find mistakes in the command line before a process is started for it."""
    if isinstance(resolved, ProgramTarget) and asked != Options(build=asked.build):
        what = f"{resolved.path} is a program: it makes its own inputs and calls torch.compile itself"
        raise TargetError(what, "leave out all options but --build and --timeout, or name an object: file.py:name")
    for text in asked.inputs:
        parse_input(text)
    for text in asked.vary:
        parse_vary(text)
