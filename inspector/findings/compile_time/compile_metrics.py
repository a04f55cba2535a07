"""Return all metrics that torch logged for each compilation, by torch's own names."""

import json
import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ctrace.inspector.facts.compile_time import Metrics
from ctrace.inspector.facts.session import Session
from ctrace.inspector.knowledge.versions.metric_names import METRICS

_LONG = 400
"""Longer texts, such as torch's configuration, are the same in most compilations."""
_EVENTS = ("compilation_metrics", "bwd_compilation_metrics")


Value = str | int | float | bool | list[str] | dict[str, bool]
"""A metric, as torch has it; one of another form is text."""


class CompilationMetrics(Struct, frozen=True):
    """The metrics of one compilation."""

    graph: str
    is_backward: bool
    values: dict[str, Value]
    """Without those that torch left empty."""
    texts: dict[str, int]
    """Long texts, by their numbers in the list of texts."""
    unknown: tuple[str, ...]
    """Names that no torch up to 2.15 has."""


class AllMetrics(Struct, frozen=True):
    """The metrics of a run."""

    compilations: tuple[CompilationMetrics, ...]
    texts: tuple[str, ...]


def all_metrics(session: Session) -> AllMetrics:
    """Return the metrics of all compilations.

    Raises:
        RunError: they are in a log that changed since it was read.
    """
    texts: dict[str, int] = {}
    found = []
    for each in session.metrics:
        values: dict[str, Value] = {}
        long: dict[str, int] = {}
        for name, value in _values(each):
            if isinstance(value, str) and len(value) > _LONG:
                long[name] = texts.setdefault(value, len(texts))
            else:
                values[name] = value
        unknown = tuple(name for name in (*values, *long) if name not in _KNOWN)
        found.append(CompilationMetrics(each.graph, each.is_backward, values, long, unknown))
    return AllMetrics(tuple(found), tuple(texts))


_KNOWN = frozenset(METRICS)


def _values(metrics: Metrics) -> Iterator[tuple[str, Value]]:
    """Yield the metrics that have a value, in torch's order."""
    known = metrics.values if metrics.record is None else _in_header(metrics.record.raw())
    for name, value in known.items():
        if value is not None:
            yield name, _plain(value)


def _in_header(header: bytes) -> dict[str, Any]:
    """Return the metrics from the first line of their record; empty: another program changed it."""
    _, _, text = header.partition(b"] ")
    try:
        record = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    found = [record.get(name) for name in _EVENTS] if isinstance(record, dict) else []
    return next((each for each in found if isinstance(each, dict)), {})


def _plain(value: Any) -> Value:
    """Return a value as a report can write it."""
    if isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    if isinstance(value, dict) and all(isinstance(each, bool) for each in value.values()):
        return value
    return repr(value)[:_LONG]
