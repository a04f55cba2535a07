"""Compile the model with a configuration, and report the graphs, breaks and CUDA graphs."""

import ast
from typing import Any

from ctrace.inspector.capture.timing.compilations import Compilations
from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.time.child.peak_memory import pool_bytes
from ctrace.inspector.features.time.child.timed_cuda_graphs import Skips
from ctrace.inspector.features.time.events import Compiled, Skipped
from ctrace.inspector.features.time.timing_request import CompileConfiguration
from ctrace.inspector.runs.capture_request import Options


def check_configuration(configuration: CompileConfiguration) -> None:
    """Refuse a mode or option that this torch does not know, before the model is loaded.

    Raises:
        TargetError: there is no such mode or option, or the option does not accept the value.
    """
    if configuration.mode is not None:
        from torch._inductor import list_mode_options

        known = [*list_mode_options()]
        _check_name("mode", configuration.mode, known)
    inductor_options(configuration)


def check_backend(configuration: CompileConfiguration) -> None:
    """Refuse a backend that neither torch nor the model's file registers.

    Raises:
        TargetError: there is no such backend.
    """
    if configuration.backend is not None:
        from torch._dynamo import list_backends

        _check_name("backend", configuration.backend, [str(name) for name in list_backends(exclude_tags=None)])


def _check_name(option: str, name: str, known: list[str]) -> None:
    if name not in known:
        names = ", ".join(sorted(set(known)))
        raise TargetError(
            f"{option} {name}: not known to torch.compile", did_you_mean(name, known, f"there are: {names}")
        )


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
    from torch._inductor import config, list_mode_options

    if configuration.backend not in (None, "inductor"):
        return configuration.backend == "cudagraphs"
    of_mode = list_mode_options().get(configuration.mode or "default", {})
    chosen = {**of_mode, **inductor_options(configuration)}
    return bool(chosen.get("triton.cudagraphs", config.triton.cudagraphs))


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
