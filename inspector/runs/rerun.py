"""Rerun a saved run with the options it was captured with, if it was captured here and belongs to the project."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from importlib.machinery import PathFinder
from pathlib import Path

from ctrace.inspector.errors import RunError
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.order import Options, Order
from ctrace.inspector.runs.store import Run
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget, Resolved, holds

_TODO = "name the target: ctrace kernels model.py --target GPU"


def order_of(run: Run) -> Order:
    """Read the order of a saved run.

    Raises:
        RunError: the order cannot be read, or its target no longer exists.
    """
    try:
        order = Order.from_file(run.order)
    except (OSError, ValueError) as error:
        what = f"{run.order} cannot be read ({error}), so {run.name} cannot be rerun"
        raise RunError(what, _TODO) from None
    if order.path is not None and not holds(Path(order.path).exists):
        raise RunError(f"{order.path}, the target of {run.name}, no longer exists", _TODO)
    return order


def resolved_of(order: Order) -> Resolved:
    """Return the target of an order."""
    path = None if order.path is None else Path(order.path)
    if order.kind == "program":
        return ProgramTarget(path, order.module, order.args, order.typed)
    return ModelTarget(path, order.module, order.name)


def what_of(order: Order) -> str:
    """Return the target of an order as the command line spells it."""
    name = f":{order.name}" if order.name else ""
    return f"{order.path or order.module}{name}"


def refuse_foreign(run: Run, order: Order, options: str) -> None:
    """Refuse to rerun a target of unproven origin, unless the user names it.

    `options` are the command-line options for the suggested command.

    Raises:
        RunError: nothing proves that the run was captured here, or its target is outside of the project.
    """
    why = provenance.doubt(run) or _outside(order)
    if not why:
        return
    what = _printable(f"cannot rerun {what_of(order)} of the last run, {run.name}: {why}")
    raise RunError(what, f"to run it anyway, name it: {_printable(_command(order, options))}")


def _outside(order: Order) -> str:
    """Return why a target is outside of the project; empty if it is inside."""
    here = Path.cwd()
    top = provenance.project(here)
    file = _module_file(str(order.module), here) if order.path is None else Path(order.path)
    if file is None:
        return f"there is no module {order.module} in {here}"
    real = file.resolve()
    return "" if real.is_relative_to(top) else f"{real} is outside of the project, {top}"


def _module_file(module: str, folder: Path) -> Path | None:
    """Find a module from a folder without importing its packages, which would run them."""
    places: Sequence[str] = [str(folder)]
    found = None
    for part in module.split("."):
        found = PathFinder.find_spec(part, places) if places else None
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    at = found and (found.origin or next(iter(places), None))
    return Path(at) if at else None


def _command(order: Order, options: str) -> str:
    """Return the command that reruns the order explicitly."""
    words = ["ctrace", "kernels", what_of(order), *options.split(), *_words(order.options)]
    return shlex.join([*words, "--", *order.args] if order.args else words)


def _words(options: Options) -> list[str]:
    pairs = [("--input", each) for each in options.inputs] + [("--vary", each) for each in options.vary]
    pairs += [("--mode", options.mode)] if options.mode else []
    words = [word for pair in pairs for word in pair]
    return [*words, *(["--train"] if options.train else []), *(["--provoke"] if options.provoke else [])]


def _printable(text: str) -> str:
    """Escape control characters: the text comes from a file that somebody else may have written."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text
    )


def same_but_for_gpu(first: Order, second: Order) -> bool:
    """Whether two orders differ only in their target GPU."""
    return _without_gpu(first) == _without_gpu(second)


def _without_gpu(order: Order) -> dict[str, object]:
    data = asdict(order)
    options = {name: value for name, value in data["options"].items() if name != "target"}
    return {**data, "options": options, "gpu": None, "log": ""}


def merged(saved: Options, requested: Options) -> Options:
    """Return the options of a saved run, overridden by those on the command line."""
    defaults = asdict(Options())
    return Options(
        **{**asdict(saved), **{name: value for name, value in asdict(requested).items() if value != defaults[name]}}
    )
