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
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.order import Options
    from ctrace.inspector.store import Store
    from ctrace.inspector.target import resolve

    store, names = Store(), target_names(request)
    if len(names) > 1:
        todo = "name one; ctrace kernels, explain and fusion compare several"
        raise TargetError(f"--target {','.join(names)}: this command takes one target", todo)
    if names:
        from ctrace.cli.targeting import session_for

        return session_for(request, *next(iter(names.items())), store)
    found = saved(request.target, store)
    if found is not None:
        return found, False
    options = Options(**request.options)
    resolved = resolve(str(request.target), request.args, has_inputs=bool(options.inputs))
    return captured(resolved, options, request.timeout, store), True


def target_names(request: Request) -> dict[str, str]:
    """Give the GPUs that `--target` names, each once, in their order: by name, how the command line writes it.

    Raises:
        CtraceError: one is not known, options exclude each other, or the project's settings are wrong.
    """
    text = request.options.get("target")
    if text is None:
        return {}
    from ctrace.inspector.compatible import check_target
    from ctrace.inspector.gpus.table import gpu_named
    from ctrace.inspector.settings import settings_at

    check_target(build=bool(request.options.get("build")), backend=request.options.get("backend"))
    files = settings_at(Path.cwd()).gpus
    return {gpu_named(name, files).name: name for name in map(str.strip, text.split(","))}


def saved(target: str | None, store: "Store") -> "Session | None":
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


def captured(resolved: "Resolved", options: "Options", timeout: float | None, store: "Store") -> "Session":
    """Run a target, once the command line is known to make sense."""
    from ctrace.cli.progress import progress
    from ctrace.inspector.compatible import check_options
    from ctrace.inspector.run import capture

    check_options(resolved, options)
    with progress() as shown:
        talk = shown.child_output
        return capture(resolved, options, store=store, timeout=timeout, stdout=talk, stderr=talk, observe=shown.observe)
