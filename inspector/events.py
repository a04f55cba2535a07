"""What a trace line can be, typed: torch's own events that ctrace uses, and ctrace's.

`decode` turns an `Entry` into one of them. An event that ctrace knows of but does not use is `Ignored`; one that it has
never heard of is `Unknown`; one that is not as it should be raises `ValueError`, `KeyError` or `TypeError`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctrace.inspector.reader import Entry


@dataclass(frozen=True, slots=True)
class FileName:
    """Torch writes file names as numbers; this explains one."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Started:
    """The capturing process began."""

    schema: int
    ctrace: str
    python: str
    triton: str | None
    cwd: str
    prefixes: dict[str, str]


@dataclass(frozen=True, slots=True)
class TorchFound:
    """The program imported torch, or (in a log made by torch alone) torch says its version."""

    version: str
    prefixes: dict[str, str]


@dataclass(frozen=True, slots=True)
class ModeChosen:
    """Whether kernels are built, or only emitted."""

    build: bool


@dataclass(frozen=True, slots=True)
class DeviceUsed:
    """The device that the program used."""

    device: str


@dataclass(frozen=True, slots=True)
class ScenarioDone:
    """A scenario has been called."""

    name: str
    calls: int
    eager_ops: int | None
    compiled_ops: int | None


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A scenario's call number `index` begins."""

    scenario: str
    index: int


@dataclass(frozen=True, slots=True)
class CompileStarted:
    """Dynamo starts an attempt at a frame; `stack` is outermost first, file names still as numbers."""

    id: str
    attempt: int
    stack: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class BreakReported:
    """Dynamo says where and why it broke a graph, or gave a function up."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class GraphMade:
    """Dynamo handed a graph to a backend; with our own hook, which, and how many ops."""

    id: str
    backend: str | None
    ops: int | None
    wraps: str | None = None
    """The class of the module, where Dynamo compiles its own wrapper around one of torch's."""


@dataclass(frozen=True, slots=True)
class BytecodeSeen:
    """A code object, and its size in bytes before and after."""

    id: str
    name: str
    qualname: str
    file: str
    line: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Torch's metrics of one compilation, forward or backward."""

    id: str
    backward: bool
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecompileExplained:
    """Torch's reasons for a recompile, newest cache entry first."""

    id: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GuardsFailed:
    """For each cache entry, newest first, the guards that the new call did not meet."""

    id: str
    entries: tuple[dict[str, Any], ...]
    closure: frozenset[str] = frozenset()
    """Names that the function takes from an enclosing one."""


@dataclass(frozen=True, slots=True)
class FusionDone:
    """How the scheduler fused the nodes of one graph part."""

    id: str
    stage: str
    before: int
    after: int
    rounds: tuple[dict[str, Any], ...]
    refused: int


@dataclass(frozen=True, slots=True)
class KernelMade:
    """One kernel of one graph part."""

    id: str
    stage: str
    name: str
    language: str
    ops: tuple[str, ...]
    stacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodegenStarted:
    """Code generation of a graph part goes on in a fork."""

    id: str
    stage: str


@dataclass(frozen=True, slots=True)
class CodegenEnded:
    """The code of a graph part is there, or could not be generated."""

    id: str
    stage: str
    seconds: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """Torch's counters at the end of the run."""

    frames: dict[str, int]
    graph_break: dict[str, int]
    unimplemented: dict[str, int]
    recompile_limit: int | None


@dataclass(frozen=True, slots=True)
class ProgramFailed:
    """How the user's code failed."""

    phase: str
    type: str
    message: str
    file: str | None
    line: int | None
    todo: str


@dataclass(frozen=True, slots=True)
class ProblemMet:
    """A hook could not do its work."""

    what: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The capture came to its own end."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A known event that nothing here needs."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event that ctrace has never heard of."""

    kind: str


Event = (
    FileName | Started | TorchFound | ModeChosen | DeviceUsed | ScenarioDone | CallBegan | CompileStarted |
    BreakReported | GraphMade | BytecodeSeen | Measured | RecompileExplained | GuardsFailed | FusionDone | KernelMade
    | CodegenStarted | CodegenEnded | Counted | ProgramFailed | ProblemMet | Ended | Ignored | Unknown
)  # fmt: skip


def decode(entry: Entry) -> Event:
    """Type an entry.

    Raises:
        ValueError, KeyError, TypeError: the entry is not as its kind should be.
    """
    decoder = _DECODERS.get(entry.kind)
    if decoder is not None:
        return decoder(entry)
    if entry.kind in _IGNORED or entry.kind.startswith(_IGNORED_PREFIXES) or entry.kind.endswith("_BYTECODE"):
        return Ignored()
    return Unknown(entry.kind)


def _id(entry: Entry) -> str:
    if entry.compile_id is None:
        msg = f"{entry.kind} without a compile id"
        raise ValueError(msg)
    return entry.compile_id


def _payload(entry: Entry) -> dict[str, Any]:
    payload = json.loads(entry.payload)
    if not isinstance(payload, dict):
        msg = f"{entry.kind} holds a {type(payload).__name__}, not an object"
        raise TypeError(msg)
    return payload


def _file_name(entry: Entry) -> FileName:
    name, number = entry.data
    return FileName(int(number), str(name))


def _started(entry: Entry) -> Started:
    data = _payload(entry)
    return Started(data["schema"], data["ctrace"], data["python"], data["triton"], data["cwd"], data["prefixes"])


def _torch(entry: Entry) -> TorchFound:
    data = _payload(entry)
    return TorchFound(data.get("torch") or data["pytorch_version"], data.get("prefixes", {}))


def _scenario(entry: Entry) -> ScenarioDone:
    data = _payload(entry)
    return ScenarioDone(data["name"], data["calls"], data["eager_ops"], data["compiled_ops"])


def _call(entry: Entry) -> CallBegan:
    data = _payload(entry)
    return CallBegan(data["scenario"], data["index"])


def _graph(entry: Entry) -> GraphMade:
    data = _payload(entry)
    return GraphMade(_id(entry), data["backend"], data["ops"], data.get("wraps"))


def _bytecode(entry: Entry) -> BytecodeSeen:
    data = _payload(entry)
    sizes = data["bytes_before"], data["bytes_after"]
    return BytecodeSeen(_id(entry), data["name"], data["qualname"], data["file"], data["line"], *sizes)


def _reasons(entry: Entry) -> RecompileExplained:
    # A bare string when there is one entry, a JSON list when there are several (guards.py:5400, 2.13).
    text = entry.payload
    reasons = json.loads(text) if text.startswith("[\n") else [text]
    return RecompileExplained(_id(entry), tuple(str(reason) for reason in reasons))


def _guards_failed(entry: Entry) -> GuardsFailed:
    data = _payload(entry)
    return GuardsFailed(_id(entry), tuple(data["entries"]), frozenset(data.get("closure", ())))


def _fusion(entry: Entry) -> FusionDone:
    data = _payload(entry)
    rounds = tuple(data["rounds"])
    return FusionDone(_id(entry), data["stage"], data["before"], data["after"], rounds, data["refused"])


def _kernel(entry: Entry) -> KernelMade:
    data = _payload(entry)
    made = data["stage"], data["name"], data["language"]
    return KernelMade(_id(entry), *made, tuple(data["ops"]), tuple(data["stacks"]))


def _codegen_ended(entry: Entry) -> CodegenEnded:
    data = _payload(entry)
    return CodegenEnded(_id(entry), data["stage"], data.get("seconds"), data.get("error"))


def _counted(entry: Entry) -> Counted:
    data = _payload(entry)
    frames, breaks, unimplemented = (data.get(name, {}) for name in ("frames", "graph_break", "unimplemented"))
    return Counted(frames, breaks, unimplemented, data.get("recompile_limit"))


def _failed(entry: Entry) -> ProgramFailed:
    data = _payload(entry)
    place = data.get("file"), data.get("line")
    return ProgramFailed(data["phase"], data["type"], data["message"], *place, data.get("todo", ""))


def _measured(entry: Entry) -> Measured:
    if not isinstance(entry.data, dict):
        msg = f"{entry.kind} is no object"
        raise TypeError(msg)
    return Measured(_id(entry), entry.kind.startswith("bwd_"), entry.data)


_DECODERS: dict[str, Callable[[Entry], Event]] = {
    "str": _file_name,
    "dynamo_start": lambda entry: CompileStarted(_id(entry), entry.attempt, tuple(entry.data["stack"])),
    "dynamo_output_graph": lambda entry: GraphMade(_id(entry), None, None),
    "compilation_metrics": _measured,
    "bwd_compilation_metrics": _measured,
    "artifact:torch_version": _torch,
    "artifact:dynamo_graph_break_reason": lambda entry: BreakReported(_id(entry), entry.payload),
    "artifact:recompile_reasons": _reasons,
    "artifact:ctrace_start": _started,
    "artifact:ctrace_torch": _torch,
    "artifact:ctrace_mode": lambda entry: ModeChosen(bool(_payload(entry)["build"])),
    "artifact:ctrace_device": lambda entry: DeviceUsed(str(_payload(entry)["device"])),
    "artifact:ctrace_scenario": _scenario,
    "artifact:ctrace_call": _call,
    "artifact:ctrace_graph": _graph,
    "artifact:ctrace_bytecode": _bytecode,
    "artifact:ctrace_recompile": _guards_failed,
    "artifact:ctrace_fusion": _fusion,
    "artifact:ctrace_kernel": _kernel,
    "artifact:ctrace_codegen_started": lambda entry: CodegenStarted(_id(entry), _payload(entry)["stage"]),
    "artifact:ctrace_codegen": _codegen_ended,
    "artifact:ctrace_codegen_failed": _codegen_ended,
    "artifact:ctrace_counters": _counted,
    "artifact:ctrace_failure": _failed,
    "artifact:ctrace_problem": lambda entry: ProblemMet(str(_payload(entry)["what"])),
    "artifact:ctrace_end": lambda entry: Ended(),
}

# What torch 2.11 to 2.13 writes besides, and tells us nothing that the above does not.
_IGNORED = frozenset(
    (
        "chromium_event", "describe_storage", "describe_tensor", "describe_source", "dump_file", "create_symbol",
        "create_unbacked_symbol", "symbolic_shape_specialization", "guard_added", "guard_added_fast", "dynamo_guards",
        "dynamo_cpp_guards_str", "aot_joint_graph", "aot_forward_graph", "aot_backward_graph", "aot_inference_graph",
        "inductor_pre_grad_graph", "inductor_post_grad_graph", "inductor_output_code", "link", "stack",
        "compilation_metrics_runtime", "bwd_compilation_metrics_runtime", "rank", "optimize_ddp_split_graph",
        "optimize_ddp_split_child", "compiled_autograd_graph", "propagate_real_tensors_provenance",
        "missing_fake_kernel", "mismatched_fake_kernel", "expression_created", "backward_compilation_metrics",
        "exported_program",
    )
)  # fmt: skip
_IGNORED_PREFIXES = (
    "artifact:aot", "artifact:backward_", "artifact:before_", "artifact:after_", "artifact:compiled_",
    "artifact:dynamo_error", "artifact:fx_graph_", "artifact:inductor_", "artifact:runtime_",
    "artifact:torch._functorch.config", "artifact:triton_", "artifact:get_", "artifact:put_",
    "artifact:graph_execution", "artifact:eager_compile_backwards_failure", "artifact:recompile_user_context",
    "artifact:cudagraph", "artifact:forward_",
)  # fmt: skip
