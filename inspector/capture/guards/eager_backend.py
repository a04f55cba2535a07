"""The backend that runs graphs as Dynamo made them; and whether a call came through another than a cache entry.

Torch asks for the second besides the guards.
"""

from collections.abc import Callable
from typing import Any

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.values import class_name
from ctrace.inspector.capture.guards.lowering import KEPT, has_hinted_symbols
from ctrace.inspector.capture.guards.unmet import Unmet
from ctrace.inspector.runs.order import Options

RECORDED_AS = "ctrace_recorded_as"
"""The attribute that says what a backend of ours is called in the log."""


def tracing(options: Options, recorder: Recorder) -> Callable[[Any, Any], Any]:
    """Make the backend that runs graphs as they are, as torch's `eager` does (_dynamo/backends/debugging.py:53, 2.13).

    A graph with symbolic sizes is first lowered for the guards that Inductor adds, unless `options` leaves that out.
    """

    def backend(graph: Any, inputs: Any) -> Any:
        if not has_hinted_symbols(graph):
            return graph.forward
        if not options.inductor_guards:
            recorder.record("inductor_guards", {"seen": False, "added": []})
            return graph.forward
        return _lowered(graph, inputs, options, recorder)

    backend.__name__ = "inductor"  # Dynamo names it where lowering fails, in the words of a whole compile
    setattr(backend, RECORDED_AS, "eager")
    return backend


def _lowered(graph: Any, inputs: Any, options: Options, recorder: Recorder) -> Any:
    """Lower a graph for its guards, and record those; a failure to lower is the program's, as with torch.compile."""
    import torch
    from torch._guards import TracingContext

    shape_env = TracingContext.get().fake_mode.shape_env  # type: ignore[union-attr]
    guards, fixed = len(shape_env.guards), set(shape_env.replacements)  # type: ignore[union-attr]
    inductor = torch._TorchCompileInductorWrapper(options.mode, None, options.dynamic)
    with recorder.keeping(KEPT):
        eager = inductor(graph, inputs)
    added = [str(guard.expr) for guard in shape_env.guards[guards:]]  # type: ignore[union-attr]
    added += [f"Eq({symbol}, {value})" for symbol, value in shape_env.replacements.items() if symbol not in fixed]  # type: ignore[union-attr]
    recorder.record("inductor_guards", {"seen": True, "added": added})
    return eager


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
