"""What all commands that look at a run share: a target, and how to run it first where it is not a saved run."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrace.cli import options as opt

if TYPE_CHECKING:
    from ctrace.inspector.model import Session
    from ctrace.inspector.order import Options
    from ctrace.inspector.store import Store
    from ctrace.inspector.target import Resolved


@dataclass(frozen=True, slots=True)
class Request:
    """The part of a command line that says which run is meant."""

    target: str | None = None
    args: tuple[str, ...] = ()
    timeout: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of `inspector.order.Options`; imported only when something is to be run."""


def _parameters(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A file, file.py:name, pkg.mod:name, a saved run or a TORCH_TRACE log. Default: the last run."
        ),
    ] = None,
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of a program.")] = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    backend: opt.Backend = None,
    build: opt.Build = False,
    gpu: opt.TargetGpu = None,
    timeout: opt.Timeout = None,
) -> Request:
    options = {
        "inputs": tuple(inputs or ()),
        "vary": tuple(vary or ()),
        "provoke": provoke,
        "train": train,
        "mode": mode,
        "dynamic": dynamic,
        "fullgraph": fullgraph,
        "backend": backend,
        "build": build,
        "target": gpu,
    }
    return Request(target, tuple(args or ()), timeout, options)


def on_a_run(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose first parameter is a `Request`, the shared arguments and options on its command line."""
    shared = inspect.signature(_parameters).parameters
    own = dict(list(inspect.signature(command).parameters.items())[1:])

    @wraps(command)
    def joined(**values: Any) -> None:
        request = _parameters(**{name: values.pop(name) for name in shared})
        command(request, **values)

    arguments = [shared["target"], shared["args"]]
    rest = [*own.values(), *(parameter for name, parameter in shared.items() if name not in ("target", "args"))]
    joined.__signature__ = inspect.Signature([*arguments, *rest])  # type: ignore[attr-defined]
    joined.__annotations__ = {parameter.name: parameter.annotation for parameter in (*arguments, *rest)}
    return joined


def session_of(request: Request) -> "tuple[Session, bool]":
    """Read the saved run that is meant, or run the target; also say which.

    Raises:
        CtraceError: the command line, the target or the run is wrong.
    """
    from ctrace.inspector.order import Options
    from ctrace.inspector.store import Store

    store = Store()
    saved = _saved(request.target, store)
    if saved is not None:
        return saved, False
    return _captured(request, Options(**request.options), store), True


def _saved(target: str | None, store: "Store") -> "Session | None":
    """Read what was captured earlier, if that is what the target names."""
    from ctrace.cli.console import say
    from ctrace.inspector.session import load, load_log, only_log

    if target is None:
        for what in store.damaged():
            say(f"ctrace: {what}; it is passed over")
        return load(store.load())
    path = Path(target)
    if path.is_file():
        return load_log(path) if path.suffix == ".log" else None
    if (store.root / target).is_dir() or (path / "run.json").is_file():
        return load(store.load(target))
    return load_log(only_log(path)) if path.is_dir() else None


def _captured(request: Request, options: "Options", store: "Store") -> "Session":
    """Run the target, once the command line is known to make sense."""
    from ctrace.cli.progress import progress
    from ctrace.inspector.run import capture
    from ctrace.inspector.target import resolve

    resolved = resolve(str(request.target), request.args, has_inputs=bool(options.inputs))
    _check(resolved, options)
    with progress() as shown:
        talk = shown.child_output
        timeout = request.timeout
        return capture(resolved, options, store=store, timeout=timeout, stdout=talk, stderr=talk, observe=shown.observe)


def _check(resolved: "Resolved", options: "Options") -> None:
    """Find mistakes in the command line before a process is started for it."""
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.inputs import parse_input, parse_vary
    from ctrace.inspector.order import Options
    from ctrace.inspector.target import ProgramTarget

    if isinstance(resolved, ProgramTarget) and options != Options(build=options.build, guard_cost=options.guard_cost):
        what = f"{resolved.path} is a program: it makes its own inputs and calls torch.compile itself"
        raise TargetError(what, "leave out all options but --build and --timeout, or name an object: file.py:name")
    for text in options.inputs:
        parse_input(text)
    for text in options.vary:
        parse_vary(text)
