"""Decode each log entry with the decoder that `_DECODERS` has for its kind.

An entry that ctrace knows but does not use becomes `Ignored`; an entry that it does not know becomes `Unknown`.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Raw, Struct, ValidationError, convert
from msgspec.json import Decoder

from ctrace.inspector.facts.events import core as ev
from ctrace.inspector.facts.events import guards as ge
from ctrace.inspector.facts.events import run
from ctrace.inspector.facts.events.kernels import KernelStacksSeen
from ctrace.inspector.files.typed_json import MOST
from ctrace.inspector.log.decode import autotuning as decode_autotuning
from ctrace.inspector.log.decode import compile_time as decode_compile_time
from ctrace.inspector.log.decode import graphs as decode_graphs
from ctrace.inspector.log.decode import kernels as decode_kernels
from ctrace.inspector.log.decode import shapes as decode_shapes
from ctrace.inspector.log.decode.records import OUR_RECORDS, compile_id, read_record
from ctrace.inspector.log.fields import Fields, loaded
from ctrace.inspector.log.framing import payload_of
from ctrace.inspector.log.reader import Entry, Left
from ctrace.inspector.log.records import RECORDS


def decode(entry: Entry) -> ev.Event:
    """Decode an entry.

    Raises:
        ValueError, KeyError, TypeError, OverflowError, RecursionError: the entry does not have the form of its kind.
    """
    if entry.kind == "chromium_event":
        return _span(entry)
    if entry.kind in _OF_A_GRAPH and entry.compile_id is None:  # compiled ahead of time, outside of torch.compile
        return ev.Ignored()
    decoder = _DECODERS.get(entry.kind)
    if decoder is not None:
        return decoder(entry)
    if entry.kind in _IGNORED or entry.kind.startswith(_IGNORED_PREFIXES) or entry.kind.endswith(_IGNORED_ENDINGS):
        return ev.Ignored()
    return ev.Unknown(entry.kind)


def left_in_log(kind: str) -> Left:
    """Return what of the payload of a kind of entry may stay in the log until a view needs it, if one does."""
    if kind == "chromium_event":
        return Left.RAW
    if kind in decode_compile_time.LOOKUPS:
        return Left.PARTLY
    if _DECODERS.get(kind) is _measured:
        return Left.HEADER
    is_needed = kind in _DECODERS and kind not in _TEXTS
    return Left.NOT if is_needed else Left.ALL


def type_of_data(kind: str) -> Any:
    """Return as what to decode the data of a kind of entry, if the log is there to read the rest later."""
    if _DECODERS.get(kind) is _measured:
        return _Metrics
    if kind == "dynamo_start":
        return _Started
    return Raw if kind == "chromium_event" or kind in _IGNORED else Any


def _payload(entry: Entry) -> Fields:
    return Fields(loaded(entry.payload), "the payload")


_Line = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


def _file_name(entry: Entry) -> ev.FileName:
    name, number = entry.data
    return ev.FileName(int(number), str(name))


class _Framed(Struct):
    """A frame of a stack; torch writes numbers for the names of files."""

    filename: _Line
    line: _Line
    name: str


class _Started(Struct):
    """The data of `dynamo_start`."""

    stack: list[_Framed]


def _compile_started(entry: Entry) -> ev.CompileStarted:
    if isinstance(entry.data, _Started):
        found = tuple(_frame(each.filename, each.line, each.name) for each in entry.data.stack)
        return ev.CompileStarted(compile_id(entry), entry.attempt, found)
    frames = Fields(entry.data, "dynamo_start").objects("stack")
    stack = (_frame(frame.integer("filename"), frame.integer("line"), frame.text("name")) for frame in frames)
    return ev.CompileStarted(compile_id(entry), entry.attempt, tuple(stack))


@lru_cache(maxsize=20_000)
def _frame(file: int, line: int, name: str) -> ev.StackFrame:
    return ev.StackFrame(file, line, name)


_VERSIONED = ("torch", "triton", "python")
"""What the versions are of; only metrics have them in a 2.11 log."""
_Number = Annotated[float, Meta(ge=float(-MOST), le=float(MOST))] | None
_Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None


class _Metrics(Struct, frozen=True):
    """The metrics of a compilation that a session keeps as numbers (`CompilationMetrics`, 2.11 to 2.13)."""

    co_name: str | None = None
    co_filename: str | None = None
    co_firstlineno: _Count = None
    guard_count: _Count = None
    graph_op_count: _Count = None
    entire_frame_compile_time_s: _Number = None
    backend_compile_time_s: _Number = None
    inductor_compile_time_s: _Number = None
    backward_cumulative_compile_time_us: _Number = None
    fail_type: str | None = None
    fail_reason: str | None = None
    config_suppress_errors: bool | None = None
    pytorch_version: str | None = None
    triton_version: str | None = None
    python_version: str | None = None
    dynamo_config: str | None = None


def _measured(entry: Entry) -> ev.Measured:
    try:
        data = entry.data if isinstance(entry.data, _Metrics) else convert(entry.data, _Metrics)
    except ValidationError as error:
        raise ValueError(str(error)) from None
    backward = data.backward_cumulative_compile_time_us
    return ev.Measured(
        id=compile_id(entry),
        backward=entry.kind.startswith("bwd_"),
        function=data.co_name,
        file=data.co_filename,
        line=data.co_firstlineno,
        guards=data.guard_count,
        ops=data.graph_op_count,
        frame_seconds=data.entire_frame_compile_time_s,
        backend_seconds=data.backend_compile_time_s,
        inductor_seconds=data.inductor_compile_time_s,
        backward_seconds=None if backward is None else backward / 1e6,
        fail_type=data.fail_type,
        fail_reason=data.fail_reason,
        suppresses=data.config_suppress_errors,
        metrics=entry.stored or entry.data,
        versions=_versions(data.pytorch_version, data.triton_version, data.python_version),
        settings=_settings(data.dynamo_config or ""),
    )


_SETTING = re.compile(
    r'"(?P<name>allow_rnn|allow_unspec_int_on_nn_module|assume_static_by_default|capture_dynamic_output_shape_ops'
    r'|capture_scalar_outputs)": (?P<value>true|false)'
)


@lru_cache
def _settings(config: str) -> dict[str, bool]:
    """Return the settings that advice may change, from all of Dynamo's as JSON; cached, as most compilations agree."""
    return {match["name"]: match["value"] == "true" for match in _SETTING.finditer(config)}


@lru_cache
def _versions(*texts: str | None) -> dict[str, str]:
    """Return the versions that metrics name; cached, as all compilations of a log name the same."""
    return {name: text.partition(" ")[0] for name, text in zip(_VERSIONED, texts, strict=True) if text}


def _reasons(entry: Entry) -> ge.RecompileExplained:
    # A bare string when there is one entry, a JSON list when there are several (guards.py:5400, 2.13).
    text = entry.payload
    reasons = loaded(text) if text.startswith("[\n") else [text]
    return ge.RecompileExplained(compile_id(entry), tuple(str(reason) for reason in reasons))


def _torch(entry: Entry) -> run.TorchFound:
    data = _payload(entry)
    return run.TorchFound(data.maybe_text("torch") or data.text("pytorch_version"))


_PHASES = {"B": True, "E": False}
"""Phases in Chrome's trace format: True begins a span, False ends it. Others, such as `i` (instant), are ignored."""


class _Chrome(Struct):
    """The fields of a span's mark, of which a log has more than of everything else together."""

    ph: str
    name: str
    ts: int | float | None = None
    args: Raw = Raw(b"null")


_ORIGINAL, _MODIFIED = "_ORIGINAL_BYTECODE", "_MODIFIED_BYTECODE"


def family(kind: str) -> str:
    """Return the name under which entries of a kind are counted: the names of bytecode contain those of functions."""
    for ending in (_ORIGINAL, _MODIFIED):
        if kind.endswith(ending):
            return f"artifact:*{ending}"
    return kind


_decode_chrome = Decoder(_Chrome).decode
_FAR = float(MOST)  # comparing a float with an integer of this size takes long


def _span(entry: Entry) -> ev.Event:
    """Decode one of torch's spans."""
    try:
        mark = _decode_chrome(entry.lines or entry.payload)
    except (ValidationError, DecodeError, UnicodeError, RecursionError):
        return _odd_span(entry)
    begins, at = _PHASES.get(mark.ph), mark.ts
    if begins is None:
        return ev.Ignored()
    if (at is not None and not -_FAR <= at <= _FAR) or (not begins and mark.name.endswith(decode_autotuning.REPORTED)):
        return _odd_span(entry)
    return ev.SpanMarked(entry.thread, mark.name, begins, entry.compile_id, None, None if at is None else float(at))


def _odd_span(entry: Entry) -> ev.Event:
    """Decode one of torch's spans; ignore one whose text is cut short, as in the logs of tests/support/record.py."""
    text = payload_of(entry.lines).decode("utf-8", "replace") if entry.lines else entry.payload
    try:
        data = Fields(loaded(text), "the payload")
        begins = _PHASES.get(data.text("ph"))
        name, at = data.text("name"), data.maybe_number("ts")
        sweep = None if begins else decode_autotuning.reported(entry.compile_id, data)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ev.Ignored()
    if begins is None:
        return ev.Ignored()
    return ev.SpanMarked(entry.thread, name, begins, entry.compile_id, sweep, at)


def _on_sizes(make: Callable[[str, Fields], ev.Event]) -> Callable[[Entry], ev.Event]:
    """Return a decoder that ignores entries without a compile id: not only torch.compile creates symbolic sizes."""

    def typed(entry: Entry) -> ev.Event:
        return ev.Ignored() if entry.compile_id is None else make(entry.compile_id, Fields(entry.data, entry.kind))

    return typed


def _recorded(entry: Entry) -> ev.Recorded:
    return ev.Recorded(entry.kind.removeprefix("artifact:"), entry.compile_id, entry.number, entry.text)


_SHOWN_AS_RECORDED = tuple(f"artifact:{name}" for name in RECORDS)
_DECODERS: dict[str, Callable[[Entry], ev.Event]] = {
    "str": _file_name,
    "dynamo_start": _compile_started,
    "dynamo_output_graph": lambda entry: decode_graphs.traced(compile_id(entry), entry),
    **dict.fromkeys(decode_graphs.STAGES, decode_graphs.printed),
    "artifact:aot_forward_graph_fw_metadata": decode_graphs.aliases,
    "create_symbol": _on_sizes(decode_shapes.symbol_made),
    "create_unbacked_symbol": _on_sizes(decode_shapes.unbacked_made),
    "symbolic_shape_specialization": _on_sizes(decode_shapes.symbol_fixed),
    "guard_added_fast": _on_sizes(decode_shapes.condition_met),
    "compilation_metrics": _measured,
    "bwd_compilation_metrics": _measured,
    "artifact:torch_version": _torch,
    **dict.fromkeys(_SHOWN_AS_RECORDED, _recorded),
    "artifact:dynamo_graph_break_reason": lambda entry: ev.BreakReported(compile_id(entry), entry.payload),
    "artifact:recompile_reasons": _reasons,
    **{f"artifact:ctrace_{kind.KIND}": partial(read_record, kind) for kind in OUR_RECORDS},
    "dynamo_cpp_guards_str": lambda entry: ge.GuardsPrinted(compile_id(entry), entry.text),
    "inductor_output_code": lambda entry: decode_kernels.code_written(entry) or ev.Ignored(),
    "artifact:inductor_provenance_tracking_kernel_stack_traces": lambda entry: (
        ev.Ignored() if entry.compile_id is None else KernelStacksSeen(entry.compile_id, entry.payload)
    ),
    **dict.fromkeys(decode_compile_time.LOOKUPS, decode_compile_time.asked),
    "artifact:precompile_cache_bypass": decode_compile_time.precompile_bypassed,
}

_TEXTS = frozenset(
    (
        *decode_graphs.STAGES, "dynamo_output_graph", "dynamo_cpp_guards_str", "inductor_output_code",
        "artifact:aot_forward_graph_fw_metadata", *_SHOWN_AS_RECORDED,
    )
)  # fmt: skip
"""Entries whose payloads are long, and that few views need."""

_OF_A_GRAPH = frozenset(
    (
        "artifact:ctrace_pass", "artifact:ctrace_attention", "artifact:ctrace_fusion", "artifact:ctrace_kernel",
        "artifact:ctrace_generated", "artifact:ctrace_user_kernel", "artifact:ctrace_user_kernel_code",
        "artifact:ctrace_autotune", "artifact:ctrace_kernel_call", "artifact:ctrace_modules",
    )
)  # fmt: skip

# Other entries of torch 2.11 to 2.15, which add nothing to those above.
_IGNORED = frozenset(
    (
        "describe_storage", "describe_tensor", "describe_source", "dump_file", "guard_added",
        "dynamo_guards", "inductor_pre_grad_graph", "link", "stack",
        "compilation_metrics_runtime", "bwd_compilation_metrics_runtime", "rank", "optimize_ddp_split_graph",
        "optimize_ddp_split_child", "compiled_autograd_graph", "propagate_real_tensors_provenance",
        "missing_fake_kernel", "mismatched_fake_kernel", "expression_created", "backward_compilation_metrics",
        "exported_program", "graph_dump", "propagate_real_tensors",
    )
)  # fmt: skip
_IGNORED_PREFIXES = (
    "artifact:aot", "artifact:backward_", "artifact:before_", "artifact:after_", "artifact:compiled_",
    "artifact:dynamo_", "artifact:fx_graph_", "artifact:inductor_", "artifact:runtime_",
    "artifact:torch._functorch.config", "artifact:triton_", "artifact:get_", "artifact:put_",
    "artifact:graph_execution", "artifact:eager_compile_backwards_failure", "artifact:recompile_user_context",
    "artifact:cudagraph", "artifact:forward_", "artifact:output_alias_wrapper", "artifact:mutation_epilogue",
    "artifact:functionalized_rng_wrapper", "artifact:effect_tokens_wrapper", "artifact:dedup_wrapper",
    "artifact:subclass_wrapper", "artifact:fx_collectives_", "artifact:optimus_", "artifact:cff_",
    "artifact:synthetic_base_wrapper", "artifact:debug_assert_wrapper", "artifact:native_dsl_compile",
    "artifact:fx_bucketing_passes_", "artifact:fx_compute_nodes_", "artifact:fx_interpreter_error",
    "artifact:fx_net_acc_splitter_", "artifact:invoke_subgraph_", "artifact:make_fx_fail_partial",
    "artifact:min_cut_failed_", "artifact:overlap_scheduling_", "artifact:pge_profile_", "artifact:post_decomp_comms",
    "artifact:pre_bucketing_", "artifact:pre_decomp_comms", "artifact:reorder_communication_",
    "artifact:scheduler_nodes_", "artifact:sink_waits_",
)  # fmt: skip
_IGNORED_ENDINGS = ("_BYTECODE", "_pre_grad", "_post_grad", "_ITERATIVE_RECOMPUTE_ERROR", "_fused")
"""Kinds that begin with the name of a function, a pass or a graph (_inductor/fx_passes/, memory.py, 2.13)."""
