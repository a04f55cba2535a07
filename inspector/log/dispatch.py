"""Decode each log entry with the decoder that `_DECODERS` has for its kind.

An entry that ctrace knows but does not use becomes `Ignored`; one that it does not know becomes `UnknownEvent`.
ctrace's own records are Structs and decode as they are declared (`facts/wire.py`). Torch's entries have decoders here,
beside the source that writes them: sizes (fx/experimental/symbolic_shapes.py, 2.11 and 2.13), code, sweeps of
autotuning. Graphs stay text, which `findings/graphs/parse.py` parses on demand; so do records that
`ctrace explain --json` shows as torch wrote them.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache, partial, reduce
from operator import or_
from sys import intern
from typing import Annotated, Any, cast

from msgspec import DecodeError, Meta, MsgspecError, Raw, Struct, ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import force_setattr

from ctrace.inspector.facts import bytecode_facts, run_events
from ctrace.inspector.facts import guard_facts as ge
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.facts.autotuning import (
    AutotuningRecord,
    Choice,
    ChoiceStatus,
    SweepReported,
    TunedInput,
    TunedOperation,
)
from ctrace.inspector.facts.built import Built, Gpu, KernelChosen, KernelCode, KernelRefusal, LaunchTiming
from ctrace.inspector.facts.bytecode_facts import GraphTraced
from ctrace.inspector.facts.cluster_facts import (
    CollectiveCalled,
    CollectivesCut,
    GraphCalled,
    GroupMade,
    MeshMade,
    RankBegan,
    StageMade,
    UnevenShard,
)
from ctrace.inspector.facts.compile_time import (
    CacheKeyed,
    CacheStored,
    EarlierKey,
    OwnCacheAsked,
    Speed,
    TorchCachesUsed,
)
from ctrace.inspector.facts.cuda_graphs import CudaGraphEvent
from ctrace.inspector.facts.fake_facts import Assumed, ModelLoaded, Stopped
from ctrace.inspector.facts.fusion_facts import FusionRecord
from ctrace.inspector.facts.graph_facts import AliasesFound, GraphPrinted, GraphStage, Printed
from ctrace.inspector.facts.guard_facts import GuardCost, GuardsFailed, GuardsPlaced
from ctrace.inspector.facts.kernel_facts import (
    CodeWritten,
    KernelCall,
    KernelMade,
    KernelStacksSeen,
    PartGenerated,
    Stage,
    TorchCodeSeen,
)
from ctrace.inspector.facts.memory_facts import FoundMemory
from ctrace.inspector.facts.outcome import Failure
from ctrace.inspector.facts.passes import AttentionFound, Pass
from ctrace.inspector.facts.scenario_facts import DangerFound, ScenarioDone
from ctrace.inspector.facts.shape_facts import (
    CodeLine,
    ConditionMet,
    ShapesSeen,
    SymbolFixed,
    SymbolMade,
    UnbackedMade,
)
from ctrace.inspector.facts.target_gpu import DeviceQuestion, Undecided
from ctrace.inspector.facts.trial import Tried
from ctrace.inspector.facts.user_kernels import UserKernel, UserKernelWritten
from ctrace.inspector.facts.wire import Record, header_field
from ctrace.inspector.files.typed_json import MOST
from ctrace.inspector.log import decode_compile_time as decode_compile_time
from ctrace.inspector.log.fields import Fields, loaded
from ctrace.inspector.log.framing import payload_of
from ctrace.inspector.log.reader import Left, LogEntry
from ctrace.inspector.log.reading_limits import refuse_many_values

RECORDS = {
    "inductor_spmd_graph_mismatch": "torch found that ranks compile different graphs",
    "aot_joint_graph_sync_decision_cross_ranks": "ranks agreed on what to save for the backward",
    "compiler_collective": "ranks exchanged what they know of dynamic sizes",
    "inductor_collective_schedule": "the order of collectives",
    "inductor_fx_passes_overlap_bucketing": "how collectives are bucketed to overlap with compute",
    "inductor_overlap_cyclic_extra_deps": "dependencies that bucketing of collectives cannot add",
    "min_cut_information": "what the partitioner saves for the backward, and what it recomputes",
    "dynamo_side_effects": "side effects that Dynamo replays after the graph",
    "dynamo_error": "an error inside Dynamo",
    "get_local_code_state": "sizes known from earlier runs (PGO), read from disk",
    "get_remote_code_state": "sizes known from earlier runs (PGO), read from a remote cache",
    "get_extra_remote_code_state": "sizes known from other jobs (PGO)",
    "put_local_code_state": "sizes for later runs (PGO), written to disk",
    "put_remote_code_state": "sizes for later runs (PGO), written to a remote cache",
    "compile_worker_status": "the processes that compile kernels",
    "compile_worker_sidecar_death": "a process that compiles kernels died",
    "dynamo_cache_bypass": "precompiled code that torch cannot cache",
    "dynamo_cache_exception": "an error of torch's cache of precompiled code",
    "aotautograd_cache_pickle_failure": "a cache key that torch cannot compute",
}
"""Names of artifacts (torch 2.11 to 2.15), each with what it is about."""


_DEEPEST = 24
"""How many innermost frames of torch's stack to keep; the function that needed a value is among them."""


def symbol_made(compile_id: str, data: Fields) -> SymbolMade:
    """Decode `create_symbol`."""
    return SymbolMade(
        compile_id, data.text("symbol"), data.text("val"), data.text("source"), _lines(data, "user_stack")
    )


def unbacked_made(compile_id: str, data: Fields) -> UnbackedMade:
    """Decode `create_unbacked_symbol`."""
    return UnbackedMade(compile_id, data.text("symbol"), _lines(data, "user_stack"))


def symbol_fixed(compile_id: str, data: Fields) -> SymbolFixed:
    """Decode `symbolic_shape_specialization`."""
    return SymbolFixed(
        id=compile_id,
        symbol=data.text("symbol"),
        sources=data.texts("sources"),
        value=data.text("value"),
        reason=data.text("reason"),
        stack=_lines(data, "user_stack"),
        asked=_functions(data),
    )


def condition_met(compile_id: str, data: Fields) -> ConditionMet:
    """Decode `guard_added_fast`."""
    return ConditionMet(compile_id, data.text("expr"), _lines(data, "user_stack"), _functions(data))


def _lines(data: Fields, name: str) -> tuple[CodeLine, ...]:
    if data.is_null(name):  # torch knows no user code there
        return ()
    return _shared_items(
        tuple(
            _line(each.integer("filename"), each.integer("line"), each.text("name"), each.maybe_text("loc") or "")
            for each in data.objects(name)
        )
    )


@lru_cache(maxsize=20_000)
def _line(file: int, line: int, name: str, text: str) -> CodeLine:
    return CodeLine(file, line, name, text)


@lru_cache(maxsize=20_000)
def _shared_items(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the first equal tuple: thousands of events have the same stacks."""
    return items


def _functions(data: Fields) -> tuple[str, ...]:
    innermost = data.maybe_list("stack")[-_DEEPEST:]
    return _shared_items(tuple(intern(Fields(each, "an item of stack").text("name")) for each in innermost))


OUR_RECORDS: tuple[type[Record], ...] = (
    run_events.Started, run_events.TorchFound, run_events.ModeChosen, run_events.DeviceUsed, run_events.Planned,
    run_events.CallBegan, run_events.EagerCall,
    run_events.DangersWithdrawn, run_events.OpsCounted, run_events.FrameLeft, run_events.PartsSeen, run_events.Listing,
    run_events.FilesFound, run_events.InductorGuardsSeen,
    run_events.CodegenStarted, run_events.CodegenEnded, run_events.CodegenFailed, run_events.Counted,
    run_events.ProgramExited, run_events.ProblemMet, run_events.Ended,
    Failure, bytecode_facts.GraphMade, bytecode_facts.ModulesSeen, bytecode_facts.LoopsUnrolled,
    bytecode_facts.BytecodeSeen, GuardsFailed, GuardsPlaced, GuardCost, ShapesSeen,
    ScenarioDone, DangerFound, Tried, OwnCacheAsked, CacheStored, CacheKeyed,
    TorchCachesUsed, EarlierKey, Speed, Accuracy, FoundMemory, Undecided, DeviceQuestion,
    Pass, AttentionFound, FusionRecord, AutotuningRecord, CudaGraphEvent, KernelMade, PartGenerated, KernelCall,
    UserKernel, UserKernelWritten,
    Built, KernelChosen, KernelCode, KernelRefusal, LaunchTiming, Gpu, ModelLoaded, Assumed, Stopped,
    RankBegan, MeshMade, GroupMade, StageMade, UnevenShard, CollectiveCalled, GraphCalled,
    CollectivesCut,
)  # fmt: skip
"""Every record that the hooks of ctrace write."""


def compile_id(entry: LogEntry) -> str:
    """Return the compilation that an entry belongs to.

    Raises:
        ValueError: it belongs to none.
    """
    if entry.compile_id is None:
        msg = f"{entry.kind} without a compile id"
        raise ValueError(msg)
    return entry.compile_id


def read_record(kind: type[Record], entry: LogEntry) -> Record:
    """Decode the payload of an entry, and add the compilation that its first line names.

    Raises:
        ValueError, RecursionError: it does not have the form of its kind.
    """
    # A kind without fields says all by its name, whatever its payload is.
    if not kind.__struct_fields__:
        return kind()
    form = _form(kind)
    refuse_many_values(entry.payload)
    try:
        record: Record = form.decode(entry.payload)
    except (MsgspecError, UnicodeError):
        # Takes more: NaN where no field is, and lone surrogates.
        record = _converted(loaded(entry.payload), kind, form.type)
    if form.header:
        force_setattr(record, form.header, compile_id(entry) if form.needs_compilation else entry.compile_id)
    return record


# msgspec has no other way to say which field is null than the text of its error (0.22).
_EMPTY = re.compile(
    r"(?:Expected `(?:str|int)`, got `null`|Invalid enum value '(?P<text>)') - at `\$(?P<path>[^`]*)\.(?P<name>\w+)`"
)


def _converted(data: Any, kind: type[Record], type_: Any) -> Record:
    """Convert the JSON of a record; null for a text or a count means that it is missing, as in logs of any version.

    So does an empty text where only some words are possible. A kind that refuses unknown fields refuses these, too.
    """
    if kind.__struct_config__.forbid_unknown_fields:
        return cast("Record", convert(data, type_))
    while True:
        try:
            return cast("Record", convert(data, type_))
        except ValidationError as error:
            found = _EMPTY.search(str(error))
            if found is None:
                raise
            path = re.findall(r"[a-z_]\w*|\[", found["path"])
            if not _drop(data, path, found["name"], found["text"]):
                raise


def _drop(data: Any, path: list[str], name: str, value: str | None) -> int:
    """Remove fields of a name and value at a path, in which `[` stands for each item; return how many there were."""
    if path and path[0] == "[" and isinstance(data, list):
        return sum(_drop(item, path[1:], name, value) for item in data)
    if not isinstance(data, dict):
        return 0
    if path:
        return _drop(data.get(path[0]), path[1:], name, value)
    if name not in data or data[name] != value:
        return 0
    del data[name]
    return 1


class _Form(Struct, frozen=True):
    """How records of a kind are read."""

    type: Any
    """The kind; if its records have several forms, each a subclass with its tag, the union of these."""
    decode: Callable[[str], Any]
    header: str
    """The field that the first line fills; empty: there is none."""
    needs_compilation: bool


@cache
def _form(kind: type[Record]) -> _Form:
    """Return how records of a kind are read; made on first use, since a run has few kinds."""
    header, needs_compilation = header_field(kind)
    forms = []
    if kind.__struct_config__.tag_field:
        forms = kind.__subclasses__()
    # A kind without forms may have a tag of its own, by which a Session tells it from other kinds.
    type_: Any = reduce(or_, forms or [kind])
    return _Form(type_, Decoder(type_).decode, header, needs_compilation)


def code_written(entry: LogEntry) -> CodeWritten | TorchCodeSeen | None:
    """Decode the code of a graph part; a log that only torch wrote does not name the part."""
    data = Fields(entry.data, entry.kind)
    stage = data.maybe_text("stage")
    # Code that is compiled ahead of time belongs to no call of torch.compile.
    if entry.compile_id is None:
        return None
    if stage is None:
        return TorchCodeSeen(entry.compile_id, entry.text)
    return CodeWritten(entry.compile_id, Stage(stage), entry.text)


STAGES = {
    "aot_joint_graph": GraphStage.JOINT,
    "aot_forward_graph": GraphStage.FORWARD,
    "aot_backward_graph": GraphStage.BACKWARD,
    "aot_inference_graph": GraphStage.INFERENCE,
    "artifact:before_pre_grad_graph": GraphStage.BEFORE_PRE_GRAD,
    "artifact:after_pre_grad_graph": GraphStage.PRE_GRAD,
    "artifact:before_joint_graph": GraphStage.BEFORE_JOINT,
    "artifact:after_joint_graph": GraphStage.AFTER_JOINT,
    "artifact:before_post_grad_graph": GraphStage.BEFORE_POST_GRAD,
    "artifact:inductor_post_grad_graph": GraphStage.POST_GRAD,
    "inductor_post_grad_graph": GraphStage.POST_GRAD,
}
"""Stages, keyed by entry kind; the last kind is for a graph from Inductor's cache (2.13, _inductor/codecache.py:2005).
"""


def traced(compile_id: str, entry: LogEntry) -> GraphTraced:
    """Decode the graph that Dynamo traced; it counts as a graph even if a later stage fails."""
    sizes_by_name = Fields(entry.data, entry.kind).maybe_lists("sizes")
    sizes = {intern(name): _shared(tuple(map(str, size))) for name, size in sizes_by_name.items()}
    text = entry.text
    traced = None
    if text:
        traced = Printed(GraphStage.DYNAMO, text, sizes, entry.attempt)
    return GraphTraced(compile_id, traced)


@lru_cache(maxsize=20_000)
def _shared(size: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first equal size: inputs of thousands of compilations share theirs."""
    return size


def printed(entry: LogEntry) -> GraphPrinted | ev.Ignored:
    """Decode a graph at a later stage; ignore a graph without a compile id, which comes from torch.export."""
    if entry.compile_id is None:
        return ev.Ignored()
    return GraphPrinted(entry.compile_id, Printed(STAGES[entry.kind], entry.text, attempt=entry.attempt))


def aliases(entry: LogEntry) -> AliasesFound | ev.Ignored:
    """Decode AOTAutograd's metadata on mutated inputs and aliased outputs."""
    if entry.compile_id is None:
        return ev.Ignored()
    return AliasesFound(entry.compile_id, entry.text, entry.attempt)


def decode(entry: LogEntry) -> ev.Event:
    """Decode an entry.

    Raises:
        ValueError, KeyError, TypeError, OverflowError, RecursionError: the entry does not have the form of its kind.
    """
    # First, without a look-up: these are most entries of a log.
    if entry.kind == "chromium_event":
        return _span(entry)
    if entry.kind in _OF_A_GRAPH and entry.compile_id is None:  # compiled ahead of time, outside of torch.compile
        return ev.Ignored()
    decoder = _DECODERS.get(entry.kind)
    if decoder is not None:
        return decoder(entry)
    # The exact names come first, as searching a set is faster than comparing many beginnings.
    if entry.kind in _IGNORED or entry.kind.startswith(_IGNORED_PREFIXES) or entry.kind.endswith(_IGNORED_ENDINGS):
        return ev.Ignored()
    return ev.UnknownEvent(entry.kind)


def left_in_log(kind: str) -> Left:
    """Return what of the payload of a kind of entry may stay in the log until a view needs it, if one does."""
    if kind == "chromium_event":
        return Left.RAW
    if kind in decode_compile_time.LOOKUPS:
        return Left.PARTLY
    if _DECODERS.get(kind) is _measured:
        return Left.HEADER
    # What no decoder reads may stay in the log as well.
    is_needed = kind in _DECODERS and kind not in _TEXTS
    if is_needed:
        return Left.NOT
    return Left.ALL


def type_of_data(kind: str) -> Any:
    """Return as what to decode the data of a kind of entry, if the log is there to read the rest later."""
    if _DECODERS.get(kind) is _measured:
        return _Metrics
    if kind == "dynamo_start":
        return _Started
    # Raw is checked to be JSON, but makes no objects.
    if kind == "chromium_event" or kind in _IGNORED:
        return Raw
    return Any


def _payload(entry: LogEntry) -> Fields:
    return Fields(loaded(entry.payload), "the payload")


_Line = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


def _file_name(entry: LogEntry) -> ev.FileName:
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


def _compile_started(entry: LogEntry) -> ev.CompileStarted:
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


def _measured(entry: LogEntry) -> ev.MetricsMeasured:
    try:
        if isinstance(entry.data, _Metrics):
            data = entry.data
        else:
            data = convert(entry.data, _Metrics)
    except ValidationError as error:
        raise ValueError(str(error)) from None
    backward = data.backward_cumulative_compile_time_us
    return ev.MetricsMeasured(
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


def _reasons(entry: LogEntry) -> ge.RecompileExplained:
    # A bare string when there is one entry, a JSON list when there are several (guards.py:5400, 2.13).
    text = entry.payload
    if text.startswith("[\n"):
        reasons = loaded(text)
    else:
        reasons = [text]
    return ge.RecompileExplained(compile_id(entry), tuple(str(reason) for reason in reasons))


def _torch(entry: LogEntry) -> run_events.TorchFound:
    data = _payload(entry)
    return run_events.TorchFound(data.maybe_text("torch") or data.text("pytorch_version"))


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


def _span(entry: LogEntry) -> ev.Event:
    """Decode one of torch's spans."""
    try:
        mark = _decode_chrome(entry.lines or entry.payload)
    except (ValidationError, DecodeError, UnicodeError, RecursionError):
        return _odd_span(entry)
    begins, at = _PHASES.get(mark.ph), mark.ts
    if begins is None:
        return ev.Ignored()
    if (at is not None and not -_FAR <= at <= _FAR) or (not begins and mark.name.endswith(REPORTED)):
        return _odd_span(entry)
    return ev.SpanMarked(entry.thread, mark.name, begins, entry.compile_id, None, None if at is None else float(at))


def _odd_span(entry: LogEntry) -> ev.Event:
    """Decode one of torch's spans; ignore one whose text is cut short, as in the logs of tests/support/record.py."""
    if entry.lines:
        text = payload_of(entry.lines).decode("utf-8", "replace")
    else:
        text = entry.payload
    try:
        data = Fields(loaded(text), "the payload")
        begins = _PHASES.get(data.text("ph"))
        name, at = data.text("name"), data.maybe_number("ts")
        sweep = None
        if not begins:
            sweep = reported(entry.compile_id, data)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ev.Ignored()
    if begins is None:
        return ev.Ignored()
    return ev.SpanMarked(entry.thread, name, begins, entry.compile_id, sweep, at)


def _on_sizes(make: Callable[[str, Fields], ev.Event]) -> Callable[[LogEntry], ev.Event]:
    """Return a decoder that ignores entries without a compile id: not only torch.compile creates symbolic sizes."""

    def typed(entry: LogEntry) -> ev.Event:
        if entry.compile_id is None:
            return ev.Ignored()
        return make(entry.compile_id, Fields(entry.data, entry.kind))

    return typed


def _recorded(entry: LogEntry) -> ev.RecordSeen:
    return ev.RecordSeen(entry.kind.removeprefix("artifact:"), entry.compile_id, entry.number, entry.text)


_SHOWN_AS_RECORDED = tuple(f"artifact:{name}" for name in RECORDS)
_DECODERS: dict[str, Callable[[LogEntry], ev.Event]] = {
    "str": _file_name,
    "dynamo_start": _compile_started,
    "dynamo_output_graph": lambda entry: traced(compile_id(entry), entry),
    **dict.fromkeys(STAGES, printed),
    "artifact:aot_forward_graph_fw_metadata": aliases,
    "create_symbol": _on_sizes(symbol_made),
    "create_unbacked_symbol": _on_sizes(unbacked_made),
    "symbolic_shape_specialization": _on_sizes(symbol_fixed),
    "guard_added_fast": _on_sizes(condition_met),
    "compilation_metrics": _measured,
    "bwd_compilation_metrics": _measured,
    "artifact:torch_version": _torch,
    **dict.fromkeys(_SHOWN_AS_RECORDED, _recorded),
    "artifact:dynamo_graph_break_reason": lambda entry: ev.BreakReported(compile_id(entry), entry.payload),
    "artifact:recompile_reasons": _reasons,
    **{f"artifact:ctrace_{kind.KIND}": partial(read_record, kind) for kind in OUR_RECORDS},
    "dynamo_cpp_guards_str": lambda entry: ge.GuardsPrinted(compile_id(entry), entry.text),
    "inductor_output_code": lambda entry: code_written(entry) or ev.Ignored(),
    "artifact:inductor_provenance_tracking_kernel_stack_traces": lambda entry: (
        ev.Ignored() if entry.compile_id is None else KernelStacksSeen(entry.compile_id, entry.payload)
    ),
    **dict.fromkeys(decode_compile_time.LOOKUPS, decode_compile_time.asked),
    "artifact:precompile_cache_bypass": decode_compile_time.precompile_bypassed,
}

_TEXTS = frozenset(
    (
        *STAGES, "dynamo_output_graph", "dynamo_cpp_guards_str", "inductor_output_code",
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


_SWEEP = "_template_autotuning"
_COMPILING = "_template_precompiling"
REPORTED = (_SWEEP, _COMPILING)
"""How the names of spans end that say something of a sweep."""
# Torch records the times of autotuned choices in milliseconds; the facts hold seconds.
_MILLI = 1e-3


def reported(graph: str | None, data: Fields) -> SweepReported | None:
    """Decode the end of a sweep's span, or of the span in which choices were built; None: it says nothing of them.

    Torch adds what it measured to `..._template_autotuning`, and the choices that it cannot build to
    `..._template_precompiling` (2.11 to 2.15, _inductor/select_algorithm.py).
    """
    name = data.text("name")
    if graph is None or not name.endswith(REPORTED) or data.is_null("args"):
        return None
    facts = data.object("args")
    if name.endswith(_SWEEP) and facts.maybe_text("autotune_choices_stats"):
        return SweepReported(_sweep(graph, name.removesuffix(_SWEEP), facts))
    if name.endswith(_COMPILING) and facts.maybe_text("metadata"):
        return SweepReported(_not_built(graph, name.removesuffix(_COMPILING), facts))
    return None


def _sweep(graph: str, op: str, facts: Fields) -> TunedOperation:
    stats = Fields(loaded(facts.text("autotune_choices_stats")), "the statistics of autotuning")
    best = _named(stats, "best_kernel", "best_time")
    triton = None
    if stats.has("best_triton_kernel"):
        triton = _named(stats, "best_triton_kernel", "best_triton_time")
    found: tuple[Choice, ...] = (best,)
    if triton is not None:
        found = (best, triton)
    shapes = facts.maybe_text("autotune_shape") or ""
    dtypes = (facts.maybe_text("autotune_dtypes") or "").split(", ")
    inputs = tuple(
        TunedInput(tuple(shape.split("x")), dtype=dtype.removeprefix("torch."))
        for shape, dtype in zip(shapes.split(", "), dtypes, strict=False)
    )
    # Torch names the best choice and the best of Triton's, and counts all.
    unnamed = max(stats.integer("num_choices") - len(found), 0)
    return TunedOperation(graph, None, op, inputs, found, is_on=True, is_swept=True, unnamed=unnamed)


def _named(stats: Fields, name: str, seconds: str) -> Choice:
    configuration = stats.maybe_text(f"{name}_desc") or ""
    took = stats.number(seconds) * _MILLI
    return Choice(stats.text(name), "", configuration, ChoiceStatus.TIMED, took)


def _not_built(graph: str, op: str, facts: Fields) -> TunedOperation:
    failures = Fields(loaded(facts.text("metadata")), "what failed to compile").objects("exceptions")
    choices = tuple(
        Choice("", each.maybe_text("choice_type") or "", each.maybe_text("choice") or "", error=text)
        for each in failures
        if (text := each.maybe_text("exception_message") or "not said")
    )
    return TunedOperation(graph, None, op, (), choices)
