"""Which functions Dynamo met by themselves, and which on the way through others."""

from collections.abc import Iterable

from ctrace.inspector.model import Frame
from ctrace.inspector.raw import Raw
from ctrace.inspector.sites import resumed

Key = tuple[str, str]
"""File and plain name of a function; resume functions have the name of what they resume."""


def met_functions(raw: Raw) -> frozenset[Key]:
    """Collect the functions that Dynamo was asked about, whatever came of it."""
    started = {
        (raw.files.get(start.stack[-1].file, "?"), resumed(start.stack[-1].name)[0])
        for start in raw.starts.values()
        if start.stack
    }
    return frozenset(started | {(left.file, resumed(left.name)[0]) for left in raw.left})


def is_root(function: Key, callers: Iterable[Key], met: frozenset[Key]) -> bool:
    """Whether none of the callers is a function that Dynamo had been asked about; a function may call itself."""
    return met.isdisjoint(set(callers) - {function})


def keys_of(frames: Iterable[Frame]) -> tuple[Key, ...]:
    """Name the functions of a stack."""
    return tuple((frame.file, resumed(frame.function)[0]) for frame in frames)
