"""Compile the model with a configuration, and report the graphs, breaks and CUDA graphs.

Record why torch skips CUDA graphs; torch decides this while it compiles, not in the timed calls.

Torch passes each reason to `log_cudagraph_skip_and_bump_counter` (_inductor/cudagraph_utils.py, 2.11 to 2.13). The
modules that decide import this function by name, so it is patched in each of them.

Keep what torch prints while it autotunes out of the user's terminal, and record it instead.

Torch writes its table of choices and their statistics to stderr (2.11 to 2.15, _inductor/select_algorithm.py:
`log_results`, `_log_autotune_choices_stats`). Both only print and log, after the choices were timed.

Measure the peak memory of a call's tensors.
"""

import ast
import gc
import io
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import wraps
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.calls.compiler_names import check_mode, enables_cuda_graphs
from ctrace.inspector.capture.calls.timed_rounds import Bench, Compilations
from ctrace.inspector.capture.core.imports import watch_imports
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.isolation.profiled_memory import cpu_peak
from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.time.events import AutotuningPrinted, Compiled, Event, Skipped
from ctrace.inspector.features.time.timing_model import CompileConfiguration
from ctrace.inspector.runs.capture_request import Options


def peak_of(bench: Bench, side: int) -> int | None:
    """Return the bytes allocated at a call's peak, minus those allocated before the call, or None if unknown."""
    import torch

    gc.collect()
    calls = bench.calls(1)
    if bench.device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        bench.run(side, calls)
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    return cpu_peak(lambda: bench.run(side, calls))


def pool_bytes() -> int | None:
    """Return the bytes in private memory pools, which CUDA graphs own, or None if no GPU is used."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    return sum(int(each["total_size"]) for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0))


_FUNCTION = "log_cudagraph_skip_and_bump_counter"
_MODULES = ("cudagraph_utils", "output_code", "compile_fx", "cudagraph_trees")
_SLOW_PATH = "Unable to hit fast path of CUDAGraphs"
"""How _inductor/cudagraph_trees.py (2.11 to 2.15) warns of a call that runs without its CUDA graph."""


class Skips:
    """The reasons, each with the number of skips."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record reasons in this block. If torch has moved the function, only torch's counter shows that it skips."""
        import torch._inductor.compile_fx
        import torch._inductor.cudagraph_trees
        import torch._inductor.cudagraph_utils
        import torch._inductor.output_code  # noqa: F401

        with ExitStack() as active:
            original = getattr(sys.modules["torch._inductor.cudagraph_utils"], _FUNCTION, None)

            def record_skip(message: str) -> Any:
                self.reasons[str(message)] += 1
                if original is None:
                    return None
                return original(message)

            for name in _MODULES:
                module = sys.modules[f"torch._inductor.{name}"]
                if hasattr(module, _FUNCTION):
                    active.enter_context(patched(module, _FUNCTION, record_skip))
            active.enter_context(patched(warnings, "showwarning", self._noting_warning(warnings.showwarning)))
            yield

    def _noting_warning(self, original: Any) -> Any:
        def shown(message: Any, *arguments: Any, **named: Any) -> None:
            if _SLOW_PATH in str(message):
                self.reasons[str(message)] += 1
            else:
                original(message, *arguments, **named)

        return shown


def check_configuration(configuration: CompileConfiguration) -> None:
    """Refuse a mode or option that this torch does not know, before the model is loaded.

    Raises:
        TargetError: there is no such mode or option, or the option does not accept the value.
    """
    check_mode(configuration.mode, option="mode")
    inductor_options(configuration)


def inductor_options(configuration: CompileConfiguration) -> dict[str, Any]:
    """Return the options with the names and types of Inductor's config.

    Raises:
        TargetError: there is no such option, or its value has another type.
    """
    if not configuration.options:
        return {}
    from torch._inductor import list_options

    known = {name.replace("-", "_"): name for name in list_options()}
    return {name.replace("-", "_"): _value(name, text, known) for name, text in configuration.options.items()}


def _value(name: str, text: str, known: dict[str, str]) -> Any:
    from torch._inductor import config

    key = name.replace("-", "_")
    if key not in known:
        todo = did_you_mean(key, known, "torch._inductor.list_options() lists them")
        raise TargetError(f"--options {name}: Inductor has no such option", todo)
    value, default = _read(text), config.get_config_copy()[key]
    is_number = isinstance(default, float) and isinstance(value, int)
    if default is not None and type(value) is not type(default) and not is_number:
        what = f"--options {name}={text}: not a value of type {type(default).__name__}"
        raise TargetError(what, f"its default is {default!r}")
    return value


def _read(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def compiled(model: Any, options: Options, configuration: CompileConfiguration) -> Any:
    """Return the compiled model; nothing compiles before its first call."""
    import torch

    arguments: dict[str, Any] = {"dynamic": options.dynamic, "fullgraph": options.fullgraph}
    if configuration.backend is not None:
        arguments["backend"] = configuration.backend
    chosen = inductor_options(configuration)
    if chosen:  # torch.compile takes a mode or options, not both
        from torch._inductor import list_mode_options

        mode = configuration.mode or "default"
        arguments["options"] = {**list_mode_options().get(mode, {}), **chosen}
    elif configuration.mode is not None:
        arguments["mode"] = configuration.mode
    return torch.compile(model, **arguments)


def uses_cuda_graphs(configuration: CompileConfiguration) -> bool:
    """Whether the configuration enables CUDA graphs."""
    return enables_cuda_graphs(configuration.backend, configuration.mode, inductor_options(configuration))


def outcome(configuration: CompileConfiguration, compilations: Compilations, skips: Skips, device: str) -> Compiled:
    """Return what torch.compile did in all calls so far."""
    from torch._dynamo.utils import counters

    recorded = compilations.recordings
    if not uses_cuda_graphs(configuration):
        state = "off"
    elif device != "cuda":
        state = "not_on_cpu"
    else:
        skipped = sum(skips.reasons.values()) or int(counters["inductor"]["cudagraph_skips"])
        state = {(True, True): "partly", (True, False): "recorded", (False, True): "skipped"}.get(
            (bool(recorded), bool(skipped)), "unknown"
        )
    return Compiled(
        graphs=int(counters["stats"]["unique_graphs"]),
        breaks=sum(counters["graph_break"].values()),
        cuda_graphs=state,
        recordings=recorded,
        pool=pool_bytes() if recorded else None,
        skips=tuple(Skipped(" ".join(reason.split())[:600], times) for reason, times in skips.reasons.most_common(8)),
    )


@contextmanager
def autotuning_recorded(record: Callable[[Event], None]) -> Iterator[None]:
    """Record what torch prints of autotuning in this block; a torch that prints it elsewhere prints it as usual."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            for owner, name in (
                (module.AlgorithmSelectorCache, "log_results"),
                (module, "_log_autotune_choices_stats"),
            ):
                original = getattr(owner, name, None)
                if original is not None:
                    patches.enter_context(patched(owner, name, _recorded(original, record, owner)))

        when = patches.enter_context(watch_imports())
        when("torch._inductor.select_algorithm", install)
        yield


def _recorded(original: Callable[..., Any], record: Callable[[Event], None], owner: Any) -> Any:
    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        text = io.StringIO()
        try:
            with redirect_stderr(text):
                return original(*args, **kwargs)
        finally:
            if text.getvalue():
                record(AutotuningPrinted(text.getvalue()))

    if isinstance(owner, type):
        return staticmethod(recorded)
    return recorded
