"""A backend that runs graphs as Dynamo captured them, and whether the backend of a cache entry is that of a call.

Torch checks the backend in addition to the guards.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.plain_values import class_name
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.guards.lowering import KEPT, has_hinted_symbols, late_guards
from ctrace.inspector.capture.guards.unmet import Unmet
from ctrace.inspector.facts.events.run_events import InductorGuardsSeen
from ctrace.inspector.runs.capture_request import Options

RUNNER = "ctrace_runner"
"""The key in a graph module's `meta` of a function that gets what runs the graph, and returns what runs in its place.

Under `--fake`, the code of a graph may need values that do not exist.
"""
RECORDED_AS = "ctrace_recorded_as"
"""The attribute with the name of ctrace's backend in the log."""


def tracing(options: Options, recorder: Recorder) -> Callable[[Any, Any], Any]:
    """Make a backend that runs graphs unchanged, like torch's `eager` (_dynamo/backends/debugging.py:53, 2.13).

    A graph with symbolic sizes is first lowered for the guards that Inductor adds, unless `options` disables that.
    """

    def backend(graph: Any, inputs: Any) -> Any:
        if not has_hinted_symbols(graph):
            return runner_of(graph)
        if not options.inductor_guards:
            recorder.add(InductorGuardsSeen(seen=False, added=()))
            return runner_of(graph)
        return _lowered(graph, inputs, options, recorder)

    backend.__name__ = "inductor"  # the name that Dynamo shows if lowering fails, as in a full compilation
    setattr(backend, RECORDED_AS, "eager")
    return backend


def runner_of(graph: Any, run: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function that runs a graph; `run` would, if values exist (default: the graph's code)."""
    plain: Callable[..., Any] = run or graph.forward
    replacing: Callable[[Callable[..., Any]], Callable[..., Any]] | None = graph.meta.get(RUNNER)
    return plain if replacing is None else replacing(plain)


@contextmanager
def every_backend_traces(options: Options, recorder: Recorder) -> Iterator[None]:
    """Let a program's torch.compile run its graphs as Dynamo captured them, whatever backend and mode it names.

    torch.compile ends in torch._dynamo.optimize, with the backend as an argument (2.13, torch/__init__.py:2836).
    """
    import torch._dynamo

    original = torch._dynamo.optimize

    # The backend may come by position or by name.
    def optimize(*args: Any, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if name != "backend"}
        return original(tracing(options, recorder), *args[1:], **kwargs)

    with patched(torch._dynamo, "optimize", optimize):
        yield


def _lowered(graph: Any, inputs: Any, options: Options, recorder: Recorder) -> Any:
    """Lower a graph and record the guards that this adds; a failure reaches the program, as with torch.compile."""
    import torch

    inductor = torch._TorchCompileInductorWrapper(options.mode, None, options.dynamic)
    with recorder.keeping(KEPT), late_guards() as added:
        eager = inductor(graph, inputs)
    recorder.add(InductorGuardsSeen(seen=True, added=tuple(added)))
    return eager


def other_backend(before: Any, now: Any) -> list[Unmet]:
    """Describe how backends differ, in torch's words (`BACKEND_MATCH failure`, guards.py, 2.11 to 2.13), if they do."""
    if now is None or before is None or before == now:
        return []
    return [Unmet("BACKEND_MATCH failure", now=_named(now), was=_named(before))]


def _named(backend: Any) -> str:
    """Return a backend's name and options as they were passed to torch.compile."""
    name = getattr(backend, "compiler_name", None) or getattr(backend, "__qualname__", None)
    values = {
        "dynamic": getattr(backend, "dynamic", None),
        **_options(getattr(backend, "kwargs", None)),
        **_options(getattr(backend, "config", None)),
    }
    options = ", ".join(f"{key}={value!r}"[:80] for key, value in values.items() if value is not None)
    text = str(name or class_name(type(backend)))
    return f"{text} ({options})" if options else text


def _options(options: Any) -> dict[str, Any]:
    """Keep options that are plain values."""
    plain = options if isinstance(options, dict) else {}
    return {str(key): value for key, value in plain.items() if isinstance(value, bool | int | float | str)}
