"""Sentences about a model without weights: its size, what was cut, and what the run assumed."""

from collections.abc import Iterator

from ctrace.inspector.facts.fake_facts import Assumed, AssumedFrom
from ctrace.inspector.facts.session import Session
from ctrace.reports import format as fmt

_MOST = 4
_BILLION, _MILLION = 10**9, 10**6


def fake_lines(session: Session, *, has_steps: bool) -> Iterator[str]:
    """Say what the model lacks: values, layers; and what the run assumed instead of values.

    `has_steps`: whether the steps to do next say how a stopped call goes on.
    """
    model = session.model
    if model is None:
        return
    if model.fake:
        yield f"fake: {_size(model.parameters, model.parameter_bytes)}, no storage"
    if model.layers_cut:
        cut = fmt.count(model.layers_cut, "layer")
        yield f"layers cut: {cut} left out, {model.layers} kept of each list (--layers)"
    if session.stopped is not None and not has_steps:
        yield session.stopped.todo
    for each in session.assumed[:_MOST]:
        yield f"assumed: {_assumption(each, session.environment.cwd)}"
    if (left := len(session.assumed) - _MOST) > 0:
        yield f"assumed: {left} more, in --json"


def _size(parameters: int | None, size: int | None) -> str:
    if parameters is None or size is None:
        return "parameters not counted"
    return f"{_short(parameters)} parameters, {_decimal(size)}"


def _short(number: int) -> str:
    if number >= _BILLION:
        return f"{number / _BILLION:.2f} B"
    return f"{number / _MILLION:.1f} M" if number >= _MILLION else f"{number:,}"


def _decimal(size: int) -> str:
    """Write bytes in decimal units, as the sizes of models are given."""
    if size >= _BILLION:
        return f"{size / _BILLION:.1f} GB"
    return f"{size / _MILLION:.1f} MB" if size >= _MILLION else f"{size / 1000:.1f} kB"


def _assumption(each: Assumed, cwd: str) -> str:
    place = fmt.place(each.file, each.line, cwd)
    if each.origin is AssumedFrom.SYMBOL:
        return f"{place} `{each.expression}` has no value; torch carries the symbol {each.value}"
    return f"{place} `{each.expression}` is {each.value} (--assume)"
