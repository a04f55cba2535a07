"""What a saved run was made of, to make it anew."""

import json
from dataclasses import asdict
from pathlib import Path

from ctrace.inspector.errors import RunError
from ctrace.inspector.order import Options, Order
from ctrace.inspector.store import Run
from ctrace.inspector.target import ModelTarget, ProgramTarget, Resolved

_TODO = "name the target: ctrace kernels model.py --target GPU"


def order_of(run: Run) -> Order:
    """Read what a run was made of.

    Raises:
        RunError: its order cannot be read, or what it ran is not there any more.
    """
    try:
        order = Order.from_file(run.order)
    except (OSError, ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        what = f"{run.order} cannot be read ({type(error).__name__}: {error}), so {run.name} cannot be made anew"
        raise RunError(what, _TODO) from None
    if order.path is not None and not Path(order.path).is_file():
        raise RunError(f"{order.path}, which {run.name} ran, is not there", _TODO)
    return order


def resolved_of(order: Order) -> Resolved:
    """Give back what was to be run."""
    path = None if order.path is None else Path(order.path)
    if order.kind == "program":
        return ProgramTarget(path, order.module, order.args)
    return ModelTarget(path, order.module, order.name)


def same_but_for_gpu(first: Order, second: Order) -> bool:
    """Whether two runs were made of the same, each for a GPU of its own."""
    return _without_gpu(first) == _without_gpu(second)


def _without_gpu(order: Order) -> dict[str, object]:
    data = asdict(order)
    options = {name: value for name, value in data["options"].items() if name != "target"}
    return {**data, "options": options, "gpu": None, "log": ""}


def merged(saved: Options, asked: Options) -> Options:
    """Take the options of a saved run, and over them what a command line asks for otherwise."""
    usual = asdict(Options())
    return Options(
        **{**asdict(saved), **{name: value for name, value in asdict(asked).items() if value != usual[name]}}
    )
