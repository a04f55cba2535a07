"""The backend that runs graphs as Dynamo made them; and whether a call came through another than a cache entry.

Torch asks for the second besides the guards.
"""

from typing import Any

from ctrace.inspector.capture.unmet import Unmet
from ctrace.inspector.capture.values import class_name


def eager(graph: Any, _inputs: Any) -> Any:
    """Run a graph as it is, as torch's own `eager` does (_dynamo/backends/debugging.py:53, 2.13), which is by name."""
    return graph.forward


def other_backend(before: Any, now: Any) -> list[Unmet]:
    """Word the difference as torch begins it (`BACKEND_MATCH failure`, guards.py, 2.11 to 2.13); none: the same."""
    if now is None or before is None or before == now:
        return []
    return [Unmet("BACKEND_MATCH failure", now=_named(now), was=_named(before))]


def _named(backend: Any) -> str:
    """Name a backend as it is given to torch.compile, with what else was given."""
    name = getattr(backend, "compiler_name", None) or getattr(backend, "__qualname__", None)
    given = {
        "dynamic": getattr(backend, "dynamic", None),
        **_options(getattr(backend, "kwargs", None)),
        **_options(getattr(backend, "config", None)),
    }
    options = ", ".join(f"{key}={value!r}"[:80] for key, value in given.items() if value is not None)
    text = str(name or class_name(type(backend)))
    return f"{text} ({options})" if options else text


def _options(given: Any) -> dict[str, Any]:
    """Keep options that are plain values."""
    plain = given if isinstance(given, dict) else {}
    return {str(key): value for key, value in plain.items() if isinstance(value, bool | int | float | str)}
