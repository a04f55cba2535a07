"""Fold the begin and end marks of torch's compile steps into spans, and records of caches into look-ups
(`compile_time_of`).

`all_metrics` returns what torch measured of each compilation, by torch's own names.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.compile_time import (
    CacheLookup,
    CacheStored,
    CompileTime,
    Lane,
    LookupOutcome,
    MarkColumns,
    Metrics,
    Span,
    TorchCachesUsed,
)
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.run_events import SpanMarked
from ctrace.inspector.facts.session import Session
from ctrace.inspector.log.collected_log import CollectedLog, marks_of
from ctrace.inspector.log.decode_compile_time import parts_of

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

    JSON: ClassVar[str] = "compilation=graph part values texts unknown"
    graph: str
    is_backward: bool
    values: dict[str, Value]
    """Without those that torch left empty."""
    texts: dict[str, int]
    """Long texts, by their numbers in the list of texts."""
    unknown: tuple[str, ...]
    """Names that no torch up to 2.15 has."""

    @property
    def part(self) -> Literal["backward", "forward"]:
        """Which part of the graph was compiled."""
        return "backward" if self.is_backward else "forward"


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
    if metrics.record is None:
        known = metrics.values
    else:
        known = _in_header(metrics.record.raw())
    for name, value in known.items():
        if value is not None:
            yield name, _plain(value)


def _in_header(header: bytes) -> dict[str, Any]:
    """Return the metrics from the first line of their record; empty: another program changed it."""
    # The record is a line of torch's log: `V1129 10:46:02.536000 13572 torch/_dynamo/utils.py:123] {...}`.
    _, _, text = header.partition(b"] ")
    try:
        record = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    found = []
    if isinstance(record, dict):
        found = [record.get(name) for name in _EVENTS]
    return next((each for each in found if isinstance(each, dict)), {})


def _plain(value: Any) -> Value:
    """Return a value as a report can write it."""
    # JSON has no NaN and no infinities.
    if isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    if isinstance(value, dict) and all(isinstance(each, bool) for each in value.values()):
        return value
    return repr(value)[:_LONG]


_WORKERS = frozenset(("compile_file",))
"""Steps that torch runs in threads of its own (`CppCodeCache`, _inductor/codecache.py, 2.11 to 2.15). A log that
torch wrote names the process, not the thread, so these steps seem to overlap with those of the program's thread."""
_STARTS = frozenset(("dynamo", "entire_frame_compile", "entire_backward_compile"))
"""Steps that only the program's own threads run, because no other step contains them (2.11 to 2.15)."""
COUNTERS = {
    ("fx_graph", LookupOutcome.HIT): "fxgraph_cache_hit",
    ("fx_graph", LookupOutcome.MISS): "fxgraph_cache_miss",
    ("fx_graph", LookupOutcome.BYPASS): "fxgraph_cache_bypass",
    ("aot_autograd", LookupOutcome.HIT): "autograd_cache_hit",
    ("aot_autograd", LookupOutcome.MISS): "autograd_cache_miss",
    ("aot_autograd", LookupOutcome.BYPASS): "autograd_cache_bypass",
    ("precompile", LookupOutcome.HIT): "dynamo_cache_hit",
    ("precompile", LookupOutcome.MISS): "dynamo_cache_miss",
}
"""Torch's counter of each outcome (`torch._dynamo.utils.counters`: `inductor`, `aot_autograd`, `dynamo_cache`)."""


# The count comes from the log, and each package becomes a row.
_MOST_PACKAGES = 1000
_DEEPEST = 200
"""Limit on nested steps; torch nests about 20. The time of deeper steps counts for the step around them."""
_UNSTORED = "unstored"
_NEVER = "torch did not try to; it stores a forward and its backward together, once both are compiled"


class _Open(Struct):
    """A span whose end is still to come."""

    name: str
    at: float
    graph: str | None
    children: list["_Open"] = field(default_factory=list)
    end: float | None = None


class _Thread(Struct):
    """The spans of one thread, as far as they are known."""

    roots: list[_Open] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    beside: list[_Open] = field(default_factory=list)
    """Spans of worker threads that the log does not tell apart from this one."""
    last: float = 0.0

    def add(self, mark: SpanMarked, at: float) -> None:
        """Open a span, or close one."""
        at = self.last = max(at, self.last)  # the clock may have been set back
        if mark.begins:
            span = _Open(mark.name, at, mark.compilation)
            if len(self.stack) < _DEEPEST:  # a damaged log may begin steps without an end
                around = self.stack[-1].children if self.stack else self.roots
                around.append(span)
            self.stack.append(span)
            return
        # Steps of one name may nest, and an end belongs to the innermost of them.
        index = next((each for each in reversed(range(len(self.stack))) if self.stack[each].name == mark.name), None)
        if index is None:
            return
        if mark.name in _WORKERS and index < len(self.stack) - 1:
            self._part(index, at)
            return
        for span in self.stack[index:]:  # an exception ended the steps inside, too
            span.end = at
        del self.stack[index:]

    def _part(self, index: int, at: float) -> None:
        """Move a worker's span out of the stack, and move the spans that began during it into the span around it."""
        span, inner = self.stack.pop(index), self.stack[index]
        span.end = at
        if index:
            around = self.stack[index - 1].children
        else:
            around = self.roots
        around[:] = [each for each in around if each is not span]
        around.append(inner)
        span.children = [each for each in span.children if each is not inner]
        self.beside.append(span)


def compile_time_of(raw: CollectedLog) -> CompileTime:
    """Return the steps and look-ups of a log."""
    return CompileTime(
        marks=raw.marks.columns(),
        lookups=tuple(_lookups(raw)),
        earlier=tuple(raw.earlier),
        use=raw.caches or _use(raw),
        counted=_counted(raw),
    )


def _counted(raw: CollectedLog) -> dict[str, int] | None:
    """Return torch's counters; torch counts one more bypass if it cannot store a missed entry."""
    counts = None
    if raw.counted is not None:
        counts = raw.counted.caches
    if counts is None:
        return None
    # Torch counts such a bypass when it cannot store, so it stands in the counter, but in no record of a look-up.
    return {**counts, _UNSTORED: sum(each.is_bypass for each in raw.stored)}


def _use(raw: CollectedLog) -> TorchCachesUsed:
    """Return how a log without a cache record used the caches: ctrace's own captures switch them off."""
    if raw.environment.get("ctrace"):
        return TorchCachesUsed("off")
    return TorchCachesUsed()


class Timeline(Struct, frozen=True):
    """The steps of a log."""

    start: float | None = None
    """When the first step began, in microseconds; None: the log has no steps with times."""
    lanes: tuple[Lane, ...] = ()


def lanes_of(found: CompileTime) -> tuple[Lane, ...]:
    """Return the steps of a run by thread."""
    return timeline(found.marks).lanes


@lru_cache(maxsize=1)
def timeline(marks: MarkColumns) -> Timeline:
    """Return the steps that pairs of marks make; one screen asks several times."""
    start = min((mark.at for mark in marks_of(marks) if mark.at is not None), default=None)
    if start is None:
        return Timeline()
    return Timeline(start, tuple(_lanes(marks, start)))


def _lanes(marks: MarkColumns, start: float) -> Iterator[Lane]:
    threads: dict[str, _Thread] = {}
    for mark in marks_of(marks):
        if mark.at is not None:
            threads.setdefault(mark.thread, _Thread()).add(mark, (mark.at - start) / 1e6)
    # A step without an end, as in a program that was killed, ends with the last mark of its thread.
    found = [(name, [_span(each, thread.last, None) for each in thread.roots]) for name, thread in threads.items()]
    compiles = {name for name, roots in found if any(root.name in _STARTS for root in roots)}
    for name, roots in sorted(found, key=lambda each: each[0] not in compiles):
        if roots:
            # In a log that begins late no thread has a step of `_STARTS`; then no lane can be called parallel.
            yield Lane(name, tuple(roots), is_parallel=bool(compiles) and name not in compiles)
        yield from _beside(name, threads[name])


def _span(each: _Open, last: float, graph: str | None) -> Span:
    """Return a span with its children inside it; a span without an end mark ends where the log ends."""
    if each.end is None:
        end = last
    else:
        end = each.end
    graph = each.graph or graph
    children = tuple(_span(child, end, graph) for child in each.children)
    return Span(each.name, each.at, max(end, each.at), graph, children, is_cut=each.end is None)


def _beside(thread: str, found: _Thread) -> Iterator[Lane]:
    """Put the spans of workers on as few lanes as possible without overlaps."""
    lanes: list[list[Span]] = []
    for span in sorted((_span(each, found.last, None) for each in found.beside), key=lambda each: each.begin):
        free = next((lane for lane in lanes if lane[-1].end <= span.begin), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    for number, lane in enumerate(lanes, 1):
        yield Lane(f"{thread} worker {number}", tuple(lane), is_parallel=True)


def _lookups(raw: CollectedLog) -> Iterator[CacheLookup]:
    stored = {(each.cache, each.key): each for each in raw.stored}
    loaded: Counter[str | None] = Counter()
    for lookup, spans in raw.lookups:
        found = lookup
        if lookup.cache == "fx_graph":
            found = replace(found, stage=_stage(lookup, spans, loaded))
        if lookup.key is not None and (keyed := raw.keyed.get((lookup.cache, lookup.key))) is not None:
            found = replace(found, components=parts_of(keyed.components))
        # Only ctrace's hooks record what was stored, so torch's own log cannot say that something was not.
        if lookup.outcome is LookupOutcome.MISS and raw.caches is not None:
            after = stored.get((lookup.cache, lookup.key or ""), CacheStored(lookup.cache, "", False, _NEVER))
            found = replace(found, is_stored=after.is_stored, not_stored=after.why)
        yield found
    yield from _precompiled(raw)


def _precompiled(raw: CollectedLog) -> Iterator[CacheLookup]:
    """Return the hits and misses of precompiled packages: torch counts them, and writes no entry (2.11 to 2.13)."""
    counts: Mapping[str, int] = {}
    if raw.counted is not None:
        counts = raw.counted.caches or {}
    for outcome in (LookupOutcome.HIT, LookupOutcome.MISS):
        for _ in range(min(counts.get(COUNTERS["precompile", outcome], 0), _MOST_PACKAGES)):
            yield CacheLookup("precompile", outcome)


def _stage(lookup: CacheLookup, spans: Iterable[str], loaded: Counter[str | None]) -> str | None:
    """Return the graph part of a look-up; torch does not record it, but the open steps do.

    An AOTAutograd cache hit loads the forward, then the backward (`wrap_post_compile`, _functorch/_aot_autograd/
    aot_autograd_result.py, 2.11 to 2.15).
    """
    names = list(spans)
    if "AOTAutogradCache.inductor_load" in names:
        loaded[lookup.graph] += 1
        if loaded[lookup.graph] == 1:
            return str(Stage.FORWARD)
        return str(Stage.BACKWARD)
    if any("bw_compiler" in name or name.startswith("backward.") for name in names):
        return str(Stage.BACKWARD)
    if any("fw_compiler" in name for name in names):
        return str(Stage.FORWARD)
    return None


def miscounted_lookups(found: CompileTime) -> Iterator[str]:
    """Yield a sentence for each outcome with different numbers in torch's counter and in the log."""
    if found.counted is None:
        return
    seen = Counter((each.cache, each.outcome) for each in found.lookups)
    for outcome, counter in COUNTERS.items():
        if outcome[0] == "precompile":  # torch writes no entry for its hits and misses
            continue
        counted, number = found.counted.get(counter, 0), seen[outcome]
        if outcome == ("aot_autograd", LookupOutcome.BYPASS):  # counted again where the result cannot be stored
            number += found.counted.get(_UNSTORED, 0)
        if counted != number:
            yield f"cache look-ups: torch's counter {counter} says {counted}, the entries of the trace {number}"
