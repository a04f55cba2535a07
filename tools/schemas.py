"""Write a JSON Schema of what each command prints with `--json`: `make schemas`.

They are generated from the Documents, and that of `check` from the functions that write its report (see `shapes.py`),
so names, types and enum values follow the code. The package contains `reports/schemas/`, and `ctrace schema` prints a
schema from there.
"""

import enum
import json
import sys
import types
import typing
from collections import abc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shapes import ANYTHING, Array, Constant, Either, Object, Reference, Row, Shape, Value, Writers, options, refers

from ctrace.inspector.facts.user_kernels import Epilogue
from ctrace.inspector.findings.graphs.graph_summary import Shares
from ctrace.inspector.findings.kernels.bounds import PartLeast
from ctrace.inspector.version import __version__

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).resolve().parent.parent / "reports" / "schemas"


@dataclass(frozen=True)
class Form:
    """One form of a command's output: its `module:Document`, or `module:function` that writes it, and its options."""

    writer: str
    options: str = ""
    each: bool = False
    """Whether the output is a list of what the function returns."""


_SEVERAL_GPUS = "ctrace.inspector.diagnosis.side_by_side_document:SideBySideDocument"
_PACKAGES = "ctrace.inspector.features.workshop.package_model"
_GRAPHS, _KERNELS, _LESSONS = (
    "ctrace.inspector.findings.graphs.graphs_document",
    "ctrace.inspector.findings.kernels.kernels_document",
    "ctrace.inspector.findings.breaks.advice_lookup",
)

COMMANDS: dict[str, tuple[Form, ...]] = {
    "explain": (
        Form("ctrace.inspector.diagnosis.explain_document:ExplainDocument"),
        Form(_SEVERAL_GPUS, "--target A,B"),
    ),
    "run": (Form("ctrace.inspector.diagnosis.explain_document:ExplainDocument"),),
    "breaks": (
        Form("ctrace.inspector.diagnosis.breaks_document:BreaksDocument"),
        Form(f"{_LESSONS}:Lesson", "--explain"),
    ),
    "recompiles": (
        Form("ctrace.inspector.diagnosis.recompiles_document:RecompilesDocument"),
        Form(f"{_LESSONS}:CauseLesson", "--explain"),
    ),
    "guards": (Form("ctrace.inspector.findings.guard_view:GuardsDocument"),),
    "shapes": (Form("ctrace.inspector.findings.shapes_document:ShapesDocument"),),
    "bytecode": (Form("ctrace.inspector.features.bytecode.bytecode_view:BytecodeDocument"),),
    "graphs": (
        Form(f"{_GRAPHS}:GraphsDocument"),
        Form(f"{_GRAPHS}:GraphStageDocument", "--stage"),
        Form(f"{_GRAPHS}:GraphLineDocument", "--line"),
        Form(f"{_GRAPHS}:StageDiffDocument", "--diff"),
        Form(f"{_GRAPHS}:PassesDocument", "--passes"),
    ),
    "fusion": (
        Form("ctrace.inspector.findings.fusion_view:FusionDocument"),
        Form(_SEVERAL_GPUS, "--target A,B"),
    ),
    "kernels": (
        Form(f"{_KERNELS}:KernelsDocument"),
        Form("ctrace.inspector.findings.kernels.at_line:LineDocument", "--line"),
        Form(f"{_KERNELS}:WrappersDocument", "--wrapper"),
        Form(f"{_KERNELS}:StageDocument", "--ir"),
        Form("ctrace.reports.dump.dumped:Dumped", "--dump"),
        Form(_SEVERAL_GPUS, "--target A,B"),
        Form("ctrace.reports.dump.eject_writing:EjectDocument", "eject NAME"),
        Form(f"{_PACKAGES}:ApplyDocument", "apply DIR TARGET"),
        Form(f"{_PACKAGES}:TuneDocument", "tune DIR"),
        Form(f"{_PACKAGES}:CheckDocument", "edit DIR --once"),
        Form("ctrace.inspector.features.workshop.triton_op_model:WrapResult", "wrap FILE:KERNEL"),
    ),
    "time": (
        Form("ctrace.inspector.features.time.timing_differences:TimingDocument"),
        Form("ctrace.inspector.features.time.timing_differences:TimingTable", "--modes A,B or --backends A,B"),
        Form("ctrace.inspector.findings.compile_time_view:CompileDocument", "--compile"),
    ),
    "accuracy": (Form("ctrace.inspector.facts.accuracy_facts:AccuracyDocument"),),
    "memory": (
        Form("ctrace.inspector.facts.memory_facts:StepMemoryDocument"),
        Form("ctrace.inspector.facts.memory_facts:FitDocument", "--fit WHAT"),
    ),
    "cudagraphs": (Form("ctrace.inspector.findings.cuda_graph_view:CudaGraphsDocument"),),
    "autotune": (Form("ctrace.inspector.findings.autotuning_view:AutotuningDocument"),),
    "collectives": (Form("ctrace.inspector.features.cluster.collective_view:CollectivesDocument"),),
    "diff": (Form("ctrace.inspector.features.compare.changes:DiffDocument"),),
    "upgrade": (
        Form("ctrace.inspector.features.upgrade.upgrade_model:UpgradeDocument"),
        Form("ctrace.inspector.features.upgrade.upgrade_model:CleanedEnvironments", "--clean"),
    ),
    "ranks": (Form("ctrace.inspector.features.compare.ranks_of_job:Job"),),
    "check": (Form("ctrace.reports.gate.json:render_check_json"),),
    "fix": (Form("ctrace.inspector.features.fix.repairs.repair_result:Fixes"),),
    "repro": (Form("ctrace.inspector.features.fix.reduction.saved_reproducers:Reproducer"),),
    "runs": (Form("ctrace.inspector.runs.store:SavedRun", each=True),),
    "targets": (
        Form("ctrace.inspector.knowledge.gpus.gpu_table:Listed", "NAME"),
        Form("ctrace.inspector.knowledge.gpus.gpu_table:Listed", each=True),
    ),
    "doctor": (Form("ctrace.inspector.self_check:ProbeResult", each=True),),
}


NAMED: dict[str, str] = {
    "Accuracy": "accuracy",
    "Culprit": "culprit",
    "Advice": "advice",
    "AdviceEntry": "entry",
    "CauseCase": "caused",
    "CudaGraphPart": "cuda_graph",
    "CudaGraphReason": "reason",
    "FunctionShapes": "function",
    "SizedTensor": "tensor",
    "Sized": "dim",
    "SizeCondition": "condition",
    "Unbacked": "unbacked",
    "GuardedCompilation": "compilation",
    "Guard": "guard",
    "TensorGuard": "tensor",
    "GuardNode": "node",
    "GuardCost": "cost",
    "Duration": "duration",
    "Apply": "apply",
    "Break": "break",
    "Cause": "cause",
    "Cost": "cost",
    "Coverage": "coverage",
    "Danger": "danger",
    "Effect": "effect",
    "Frame": "at",
    "Function": "function",
    "Recompile": "recompile",
    "RootCause": "root_cause",
    "Skip": "skip",
    "Suggestion": "suggestion",
    "UserLine": "at",
    "AdvisedGroup": "group",
    "Cache": "cache",
    "RankedBreak": "ranked",
    "Choice": "choice",
    "KernelRow": "kernel",
    "OperationChoices": "operation",
    "TimeSpread": "spread",
    "Untried": "untried",
    "Change": "change",
    "MadeEnvironment": "environment",
    "UpgradeChange": "change",
    "UpgradeSide": "side",
    "Access": "access",
    "Buffer": "buffer",
    "DeviceQuestion": "asked",
    "Gpu": "gpu",
    "KernelRefusal": "refused",
    "LaunchTimes": "time",
    "Least": "least",
    "Node": "node",
    "Occupancy": "occupancy",
    "Parameter": "parameter",
    "PartLeast": "target_part",
    "Score": "score",
    "TritonOp": "op",
    "Undecided": "undecided",
    "Compared": "compared",
    "Element": "element",
    "ExpectedPlace": "place",
    "KernelConfiguration": "configuration",
    "RegionCheck": "region",
    "Times": "times",
    "TriedConfiguration": "tried",
    "Combined": "combined",
    "CombinedStep": "step",
    "MissedFinding": "missed",
    "Obligation": "obligation",
    "ProofCheck": "check",
    "TriedRepair": "tried",
    "Compiled": "cuda_graphs",
    "Interval": "interval",
    "PeakMemory": "peaks",
    "SharesMeasured": "shares",
    "SpeedComparison": "speedup",
    "SpeedDifference": "difference",
    "ConfigurationTimes": "configuration",
    "TimedPart": "part",
    "CacheAnswer": "answer",
    "CompileAnswer": "compile",
    "Divergence": "divergence",
    "Listed": "data",
    "DetailedKernel": "row",
    "DetailedPart": "part",
    "Ejected": "ejecting_kernel",
    "FusedPart": "part",
    "GraphNodes": "graph_nodes",
    "KernelAtLine": "of_line",
    "KernelLaunch": "launch",
    "KernelNode": "node",
    "KernelOfPart": "kernel",
    "KernelsDocument.bounds": "bounds",
    "KernelsDocument.user_kernels": "user_kernels",
    "Missed": "missed",
    "NotedUserKernel": "kernels_kernel",
    "Ranked": "candidate",
    "RankedRound": "round",
    "Resources": "resources",
    "StageCode": "code",
    "StageDocument.code": "ir",
    "TargetDevice | None": "target",
    "AllMetrics": "metrics",
    "ComparedKernel": "side_by_side_kernel",
    "ComparedPart": "side_by_side_part",
    "One": "one",
    "AttentionGroup": "passes_attention",
    "Cut": "cut",
    "ErrorOfRun | None": "failure",
    "ExplainDocument": "report",
    "FusionSummary | None": "fusion",
    "ScenarioResult": "scenario",
    "Speed": "speed",
    "TorchRecord": "record",
    "AttentionReason | AttentionObstacle | None": "why",
    "FxGraph": "graph",
    "FxNode": "node",
    "LineChange": "change",
    "LineLowered": "lowered",
    "Pass": "pass",
    "SavedByForward": "kept",
    "_Line": "line",
    "tuple[AttentionGroup, ...]": "attention",
    "tuple[FxNode, ...]": "nodes",
    "tuple[Pass, ...]": "passes",
    "BytecodePiece": "piece",
    "DiffRow": "row",
    "FunctionCode": "function",
    "Reproducer": "repro",
    "ProbeResult": "data",
    "SavedRun": "data",
    "TunedConfigurations": "tuned_kernel",
}
"""The names of Structs and types, and of attributes of Structs, under `$defs`; others are written where they stand."""
UNDESCRIBED = frozenset(
    (
        "AllMetrics",
        "ApplyDocument.first_difference",
        "ApplyDocument.verdict",
        "CheckDocument.code",
        "CompilationMetrics.part",
        "CompiledGraph.line",
        "DetailedKernel.buffers",
        "DetailedKernel.fused_from",
        "DetailedKernel.launches",
        "DetailedKernel.lines",
        "DetailedKernel.nodes",
        "DetailedKernel.outputs",
        "DetailedPart.known",
        "Dumped.left_out",
        "EjectDocument.problems",
        "Ejected.files",
        "Ejected.op",
        "ExplainDocument",
        "ExplainDocument.dangers",
        "ExplainDocument.fake",
        "ExplainDocument.layers",
        "FusedPart",
        "FxNode.op",
        "GraphStageDocument.graph",
        "KernelAtLine.calls_of_it",
        "KernelAtLine.nodes_of_it",
        "KernelAtLine.other_lines",
        "KernelAtLine.work_of_it",
        "KernelLaunch.arguments",
        "KernelNode.lines",
        "KernelOfPart.lines",
        "KernelOfPart.nodes",
        "KernelsDocument.undecided",
        "LineChange.same",
        "LineDocument.kernels",
        "NotedUserKernel.notes",
        "One.configurations",
        "Overview.mutated",
        "Resources.ir",
        "SavedByForward.tensors",
        "ScenarioResult.no_reference",
        "SizeClass.best",
        "Speed.speedup",
        "StageCode.source_lines",
        "StageDiffDocument.lowered",
        "StageDiffDocument.passes",
        "Statement.lines",
        "TorchRecord.length",
        "TorchRecord.text",
        "TunedConfigurations.current",
        "UserKernel.assumed",
        "UserKernel.configs",
        "UserKernel.epilogue",
        "UserKernel.grids",
        "UserKernel.written",
    )
)
"""Structs and names of Structs without a description, as published."""
PUBLISHED: dict[str, Any] = {
    "Ejected.files": tuple[str, ...] | tuple[()],
    "Ejected.op": str | None,
    "Ejected.package": str | None,
    "KernelsDocument.bounds": tuple[PartLeast, ...] | tuple[()],
    "KnownWork.bytes_not_known_of": bool | int,
    "Result.shares": Shares | typing.Literal["None"] | None,
    "UserKernel.assumed": None | bool,
    "UserKernel.epilogue": Epilogue | typing.Literal["None"] | None,
}
"""Names of Structs whose published type is wider than that of their field, or in another order."""
NAMED_OTHERWISE = {
    ("accuracy", "Culprit"): "",
    ("explain", "ComparedPart"): "part",
    ("fusion", "ComparedKernel"): "kernel",
}
"""Structs that have another name in a command's schema than in the others; empty: they are written where they stand."""


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with `--json`."""
    named = {kind: chosen for kind, name in NAMED.items() if (chosen := NAMED_OTHERWISE.get((command, kind), name))}
    forms = COMMANDS[command]
    compares = any(form.writer == _SEVERAL_GPUS for form in forms)
    each_gpu = {"SideBySideDocument.targets": dict[str, refers(forms[0].writer)]} if compares else {}  # type: ignore[misc]
    writers = Writers(named=named, undescribed=UNDESCRIBED, published=PUBLISHED | each_gpu)
    shapes: list[Shape] = []
    for form in forms:
        function = refers(form.writer)
        if isinstance(function, type):
            # A command with one form has the description of its Document, if that has a name.
            is_whole = not compares and not form.each and len(forms) > 1
            shape = writers.object_of(function) if is_whole else writers.printed(function)
            shapes.append(Array(shape) if form.each else shape)
        else:
            shapes.append(Array(writers.reference(function)) if form.each else writers.returned(function))
    written = [_schema(each) for each in shapes]
    for form, each in zip(forms, written, strict=True):
        if form.options:
            each["title"] = f"ctrace {command} {form.options} --json"
    head = {"$schema": DRAFT, "$id": f"ctrace-{__version__}-{command}.json", "title": f"ctrace {command} --json"}
    every = {name: {**_described(writers.docs[name]), **_schema(shape)} for name, shape in writers.definitions.items()}
    body: dict[str, Any] = written[0] if len(written) == 1 else {"anyOf": written}
    if set(body) == {"$ref"}:
        body = every[str(body["$ref"]).rpartition("/")[2]]
    defined = {name: every[name] for name in sorted(_referred(body, every))}
    return {**head, **body, **({"$defs": defined} if defined else {})}


def _referred(schema: Any, every: dict[str, Any]) -> set[str]:
    """Return the definitions that a schema refers to, directly or through other definitions."""
    found: set[str] = set()
    left = [schema]
    while left:
        match left.pop():
            case {"$ref": str(path)}:
                name = path.rpartition("/")[2]
                left += [] if name in found else [every[name]]
                found.add(name)
            case dict(one):
                left += one.values()
            case list(several):
                left += several
    return found


def _described(text: str) -> dict[str, str]:
    return {"description": text} if text else {}


def _schema(shape: Shape) -> dict[str, Any]:
    match shape:
        case Constant(value):
            return {"type": "null"} if value is None else {"const": value}
        case Reference(name):
            return {"$ref": f"#/$defs/{name}"}
        case Array(item):
            return {"type": "array", "items": _schema(item)}
        case Row(items):
            return _row([_schema(each) for each in items])
        case Object():
            return _object(shape)
        case Value(hint):
            found = options(shape)
            return _of_hint(hint) if found in ((shape,), (Value(hint),)) else _any_of(found)
        case Either():
            return _any_of(options(shape))


def _row(items: list[dict[str, Any]]) -> dict[str, Any]:
    return (
        {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
        if items
        else {"type": "array", "maxItems": 0}
    )


def _object(shape: Object) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object"}
    if shape.properties:
        found["properties"] = {
            name: {**_schema(each.shape), **_described(each.doc)} for name, each in shape.properties.items()
        }
        found["required"] = [name for name, each in shape.properties.items() if each.required]
    if shape.rest is not None:
        found["additionalProperties"] = _schema(shape.rest)
        if shape.names is not None:
            found["propertyNames"] = _schema(shape.names)
    elif not shape.properties:
        found["maxProperties"] = 0
    return found


def _any_of(shapes: tuple[Shape, ...]) -> dict[str, Any]:
    """Merge schemas into a short one: one list of scalar types, one enum for all constants and enums."""
    schemas: list[dict[str, Any]] = []
    for each in (_schema(one) for one in shapes):
        if each not in schemas:
            schemas.append(each)
    if {} in schemas:
        return {}
    values = [each for each in schemas if set(each) <= {"const", "enum"}]
    scalars = [each for each in schemas if set(each) == {"type"} and not isinstance(each["type"], dict)]
    types_ = list(dict.fromkeys(one for each in scalars for one in _listed(each["type"])))
    if "number" in types_:
        types_ = [each for each in types_ if each != "integer"]
    others = [each for each in schemas if each not in values and each not in scalars]
    constants = list(dict.fromkeys(one for each in values for one in each.get("enum", [each.get("const")])))
    if constants and types_ == ["null"]:
        constants, types_ = [*constants, None], []
    if "string" in types_:
        constants = [each for each in constants if not isinstance(each, str)]
    found: list[dict[str, Any]] = [{"enum": constants}] if constants else []
    found += [{"type": types_[0] if len(types_) == 1 else types_}] if types_ else []
    found += others
    if len(others) == 1 and len(found) == 2 and types_ and not constants and isinstance(others[0].get("type"), str):
        return {**others[0], "type": [others[0]["type"], *types_]}
    return found[0] if len(found) == 1 else {"anyOf": found}


def _listed(type_: str | list[str]) -> list[str]:
    return [type_] if isinstance(type_, str) else type_


_SCALARS: dict[Any, Any] = {bool: "boolean", int: "integer", float: ["number", "null"], str: "string"}
"""JSON has no NaN or infinity; reports write null instead."""


def _of_hint(hint: Any) -> dict[str, Any]:
    """Return the schema of a Python type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):
        return {}
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if hint in (None, types.NoneType):
        return {"type": "null"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [each.value for each in hint]}
    if origin is tuple and arguments and Ellipsis not in arguments:
        return _row([_schema(Value(each)) for each in arguments])
    if isinstance(origin or hint, type) and issubclass(origin or hint, abc.Mapping):
        key, value = (*arguments, Any, Any)[:2]
        return _object(Object({}, Value(value), None if key in (str, Any) else Value(key)))
    if isinstance(origin or hint, type) and issubclass(origin or hint, abc.Iterable):
        return {"type": "array", "items": _schema(Value(arguments[0]) if arguments else ANYTHING)}
    raise TypeError(f"{hint} cannot be written as JSON")


def closed(schema: Any) -> Any:
    """Return a schema that refuses properties it does not name; the shipped ones allow them, as names may be added."""
    match schema:
        case dict():
            found = {name: closed(each) for name, each in schema.items()}
            if isinstance(schema.get("properties"), dict) and "type" in schema:
                found.setdefault("additionalProperties", False)
            return found
        case list():
            return [closed(each) for each in schema]
    return schema


def texts() -> dict[str, str]:
    """Return the text of each schema file by name."""
    return {f"{name}.json": json.dumps(schema_of(name), indent=1, ensure_ascii=False) + "\n" for name in COMMANDS}


def main() -> None:
    """Write the schemas, and delete the files of removed commands."""
    FOLDER.mkdir(exist_ok=True)
    found = texts()
    for path in FOLDER.glob("*.json"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(found)} schemas in {FOLDER}", file=sys.stderr)


if __name__ == "__main__":
    main()
