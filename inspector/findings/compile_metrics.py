"""Return all metrics that torch logged for each compilation, by torch's own names."""

import json
import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ctrace.inspector.facts.compile_time import Metrics
from ctrace.inspector.facts.session import Session

METRICS = (
    "compile_id", "frame_key", "co_name", "co_filename", "co_firstlineno", "cache_size", "accumulated_cache_size",
    "guard_count", "shape_env_guard_count", "graph_op_count", "graph_node_count", "graph_input_count", "start_time",
    "entire_frame_compile_time_s", "backend_compile_time_s", "inductor_compile_time_s", "code_gen_time_s",
    "fail_type", "fail_reason", "fail_user_frame_filename", "fail_user_frame_lineno", "non_compliant_ops",
    "compliant_custom_ops", "restart_reasons", "dynamo_time_before_restart_s", "stack_trace",
    "exception_stack_trace", "graph_node_shapes", "has_guarded_code", "remote_cache_time_saved_s",
    "structured_logging_overhead_s", "config_suppress_errors", "config_inline_inbuilt_nn_modules",
    "specialize_float", "dynamo_config", "compiler_config", "is_forward", "num_triton_bundles",
    "remote_fx_graph_cache_get_time_ms", "remote_fx_graph_cache_put_time_ms", "start_time_us", "duration_us",
    "dynamo_cumulative_compile_time_us", "aot_autograd_cumulative_compile_time_us",
    "inductor_cumulative_compile_time_us", "inductor_code_gen_cumulative_compile_time_us", "triton_compile_time_us",
    "runtime_cudagraphify_time_us", "runtime_triton_autotune_time_us", "dynamo_compile_time_before_restart_us",
    "distributed_ephemeral_timeout_us", "structured_logging_overhead_us", "remote_fx_graph_cache_get_time_us",
    "remote_fx_graph_cache_put_time_us", "backward_cumulative_compile_time_us", "end_time_us",
    "pre_grad_pass_time_us", "post_grad_pass_time_us", "joint_graph_pass_time_us", "log_format_version",
    "inductor_config", "remote_cache_version", "inductor_fx_remote_cache_hit_count",
    "inductor_fx_remote_cache_miss_count", "inductor_fx_remote_cache_backend_type",
    "inductor_fx_remote_cache_hit_keys", "inductor_fx_remote_cache_miss_keys", "inductor_fx_local_cache_hit_count",
    "inductor_fx_local_cache_miss_count", "aotautograd_remote_cache_hit_count",
    "aotautograd_remote_cache_miss_count", "aotautograd_local_cache_hit_count",
    "aotautograd_local_cache_miss_count", "cuda_version", "triton_version", "feature_usage",
    "compile_time_autotune_time_us", "is_runtime", "gc_time_us", "tensorify_float_attempt",
    "tensorify_float_success", "tensorify_float_failure", "guard_latency_us", "recompile_reason",
    "num_graph_breaks", "triton_kernel_compile_times_us", "ir_count", "cudagraph_skip_reason", "python_version",
    "pgo_put_remote_code_state_time_us", "pgo_get_remote_code_state_time_us", "param_numel", "param_bytes",
    "param_count", "recompile_user_contexts", "inline_inbuilt_nn_modules_candidate", "pytorch_version",
    "inductor_provenance", "functorch_config",
)  # fmt: skip
"""The fields of `CompilationMetrics` (torch/_dynamo/utils.py, the same in 2.13 to 2.15; 2.11 lacks `functorch_config`).
"""


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
