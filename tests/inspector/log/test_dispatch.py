"""Entries become typed events."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts import bytecode_facts, run_events
from ctrace.inspector.facts import guard_facts as ge
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.bytecode_facts import Handler, Instruction
from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.fusion_facts import Fusion, FusionDone, FusionRound
from ctrace.inspector.facts.guard_facts import GuardStack
from ctrace.inspector.facts.kernel_facts import KernelMade, Stage
from ctrace.inspector.facts.run_events import CallBegan, Listing, UnknownEvent
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioDone, ScenarioKind
from ctrace.inspector.facts.session import Failure, FailurePhase
from ctrace.inspector.facts.trial import Trial, Tried
from ctrace.inspector.facts.wire import Record, payload_of
from ctrace.inspector.log.decode_sessions import fusion_of
from ctrace.inspector.log.dispatch import OUR_RECORDS, decode, left_in_log, type_of_data
from ctrace.inspector.log.log_line import LOG_SCHEMA
from ctrace.inspector.log.reader import LogEntry, parse, read
from tests.support.helpers import GUARD_COST, HOME, MODEL, PROJECT, Log, decoded
from tests.support.places import ROOT
from tests.support.sampling import sampled


def event_of(log: Log) -> ev.Event:
    *_, entry = log.entries()
    assert isinstance(entry, LogEntry)
    return decode(entry)


@pytest.mark.parametrize(
    ("log", "event"),
    [
        (Log().record("str", ["a.py", 4]), ev.FileName(4, "a.py")),
        (Log().artifact("torch_version", '{"pytorch_version": "2.12.0"}'), run_events.TorchFound("2.12.0", {})),
        (
            Log().ctrace("torch", {"torch": "2.13.0", "prefixes": {"/t": "torch"}}),
            run_events.TorchFound("2.13.0", {"/t": Owner.TORCH}),
        ),
        (Log().ctrace("mode", {"build": True}), run_events.ModeChosen(True)),
        (Log().ctrace("device", {"device": "cpu"}), run_events.DeviceUsed("cpu")),
        (Log().ctrace("call", {"scenario": "base", "index": 1}), run_events.CallBegan("base", 1)),
        (Log().scenario("wide", 2), ScenarioDone(name="wide", calls=2)),
        (Log().listing("x = 1", "a.py"), run_events.Listing("a.py", "x = 1")),
        (
            Log().record("dynamo_start", {"stack": [{"filename": 4, "line": 3, "name": "f"}]}, at="0/1", attempt=2),
            ev.CompileStarted("0/1", 2, (ev.StackFrame(4, 3, "f"),)),
        ),
        (Log().artifact("dynamo_graph_break_reason", "text", at="0/0"), ev.BreakReported("0/0", "text")),
        (Log().record("dynamo_output_graph", {}, at="0/0"), bytecode_facts.GraphTraced("0/0")),
        (
            Log().ctrace("graph", {"backend": "eager", "ops": 3}, at="0/0"),
            bytecode_facts.GraphMade("eager", 3, id="0/0"),
        ),
        (
            Log().ctrace("graph", {"backend": "eager", "ops": 3, "wraps": "Linear"}, at="0/0"),
            bytecode_facts.GraphMade("eager", 3, "Linear", id="0/0"),
        ),
        (
            Log().ctrace(
                "modules",
                {"traced": False, "modules": [{"path": "layers.0", "class": "Block", "nodes": ["add", "mul"]}]},
                at="0/0",
            ),
            bytecode_facts.ModulesSeen(
                False, (bytecode_facts.ModuleNodes("layers.0", "Block", ("add", "mul")),), id="0/0"
            ),
        ),
        (Log().metrics("0/0", guard_count=4), ev.MetricsMeasured("0/0", False, guards=4, metrics={"guard_count": 4})),
        (Log().metrics("0/0", backward=True), ev.MetricsMeasured("0/0", True, metrics={})),
        (
            Log().ctrace("codegen_started", {"stage": "forward"}, at="0/0"),
            run_events.CodegenStarted(Stage.FORWARD, id="0/0"),
        ),
        (
            Log().ctrace("codegen", {"stage": "forward", "seconds": 0.5}, at="0/0"),
            run_events.CodegenEnded(Stage.FORWARD, 0.5, id="0/0"),
        ),
        (
            Log().ctrace("codegen_failed", {"stage": "forward", "error": "no"}, at="0/0"),
            run_events.CodegenFailed(Stage.FORWARD, "no", id="0/0"),
        ),
        (
            Log().kernel("0/0", "k0", ["stack"], ["aten.exp"]),
            KernelMade(Stage.INFERENCE, "k0", "cpp", ("aten.exp",), ("stack",), id="0/0"),
        ),
        (
            Log().counters(frames={"ok": 1}, stats={"unique_graphs": 2}, recompile_limit=4),
            run_events.Counted(frames={"ok": 1}, stats={"unique_graphs": 2}, recompile_limit=4),
        ),
        (Log().counters(switched_off="X=1"), run_events.Counted(switched_off="X=1")),
        (
            Log().ctrace("failure", {"phase": "run", "type": "KeyError", "message": "'a'"}),
            Failure(FailurePhase.RUN, "KeyError", "'a'"),
        ),
        (
            Log().ctrace(
                "failure",
                {"phase": "target", "type": "Wrong", "message": "no", "file": "a.py", "line": 3, "todo": "look"},
            ),
            Failure(FailurePhase.TARGET, "Wrong", "no", "a.py", 3, "look"),
        ),
        (Log().ctrace("problem", {"what": "no device"}), run_events.ProblemMet("no device")),
        (Log().ended(), run_events.Ended()),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, Log) else "",
)
def test_events(log: Log, event: ev.Event):
    assert event_of(log) == event


def test_start_holds_versions_and_folders():
    entry, _ = Log().started().entries()
    assert isinstance(entry, LogEntry)
    started = decode(entry)
    assert isinstance(started, run_events.Started)
    assert (started.schema, started.ctrace, started.triton) == (1, "0.1.0", None)
    assert (started.cwd, started.home) == (PROJECT, HOME)
    assert "library" in started.prefixes.values()


def test_a_start_of_an_older_ctrace_says_not_where_it_is():
    data = {"schema": 1, "ctrace": "0.1.0", "python": "3.11.7", "triton": None, "cwd": PROJECT, "prefixes": {}}
    started = event_of(Log().ctrace("start", data))
    assert isinstance(started, run_events.Started)
    assert started.home == ""


def test_forward_metrics():
    values: dict[str, Any] = {
        "co_name": "forward", "co_filename": MODEL, "co_firstlineno": 8, "guard_count": 9, "graph_op_count": 2,
        "entire_frame_compile_time_s": 1.0, "backend_compile_time_s": 0.7, "inductor_compile_time_s": 0.4,
        "fail_type": "Unsupported", "fail_reason": "no such thing", "is_forward": True,
    }  # fmt: skip
    assert event_of(Log().metrics("0/0", **values)) == ev.MetricsMeasured(
        id="0/0",
        backward=False,
        function="forward",
        file=MODEL,
        line=8,
        guards=9,
        ops=2,
        frame_seconds=1.0,
        backend_seconds=0.7,
        inductor_seconds=0.4,
        fail_type="Unsupported",
        fail_reason="no such thing",
        metrics=values,
    )


def test_metrics_name_versions():
    values: dict[str, Any] = {
        "pytorch_version": "2.11.0+cu130",
        "triton_version": "",
        "python_version": "3.12.3 (main, Aug 31 2026)",
    }
    measured = event_of(Log().metrics("0/0", **values))
    assert isinstance(measured, ev.MetricsMeasured)
    assert measured.versions == {"torch": "2.11.0+cu130", "python": "3.12.3"}


def test_what_a_log_says_first_of_versions_holds():
    of_metrics = Log().metrics("0/0", pytorch_version="2.11.0", python_version="3.12.3")
    assert (of_metrics.session().environment.torch, of_metrics.session().environment.python) == ("2.11.0", "3.12.3")
    found = Log().artifact("torch_version", '{"pytorch_version": "2.13.0"}').metrics("0/0", pytorch_version="2.11.0")
    assert found.session().environment.torch == "2.13.0"


def test_backward_metrics_are_in_seconds_too():
    log = Log().metrics("0/0", backward=True, backward_cumulative_compile_time_us=1_500_000, inductor_compile_time_s=1)
    values = {"backward_cumulative_compile_time_us": 1_500_000, "inductor_compile_time_s": 1}
    assert event_of(log) == ev.MetricsMeasured("0/0", True, inductor_seconds=1.0, backward_seconds=1.5, metrics=values)


def test_fusion():
    rounds = [{"before": 5, "after": 3, "fused": [["op1", "op2"]]}, {"before": 3, "after": 3, "fused": []}]
    data = {"stage": "backward", "before": 5, "after": 3, "rounds": rounds, "refused": 2}
    fusion = Fusion("0/0", Stage.BACKWARD, 5, 3, (FusionRound(5, 3, (("op1", "op2"),)), FusionRound(3, 3)), refused=2)
    assert fusion_of(decoded("fusion", data)) == FusionDone("0/0", fusion)


def test_bytecode():
    assert event_of(
        Log().bytecode("0/0", "forward", 8, callers=[(MODEL, 50, "<module>")])
    ) == bytecode_facts.BytecodeSeen(
        "forward", "Net.forward", MODEL, 8, 48, 164, callers=(Frame(MODEL, 50, "<module>"),), id="0/0"
    )


def test_bytecode_of_a_log_without_callers():
    data = {"name": "f", "qualname": "f", "file": "a.py", "line": 1, "bytes_before": 2, "bytes_after": 3}
    event = event_of(Log().ctrace("bytecode", data, at="0/0"))
    assert event == bytecode_facts.BytecodeSeen("f", "f", "a.py", 1, 2, 3, id="0/0")


def test_ops_by_function_and_by_stack():
    log = Log().ops(5, 2, functions=[(MODEL, 8, "Net.forward", 5)], stacks=[([(MODEL, 10, "forward")], 2)])
    assert event_of(log) == run_events.OpsCounted(
        scenario="base",
        eager=5,
        left=2,
        functions=(run_events.FunctionOps(MODEL, "Net.forward", 8, 5),),
        stacks=(run_events.LeftOps((Frame(MODEL, 10, "forward"),), 2),),
    )


def test_ops_that_were_counted_in_eager_alone():
    assert event_of(Log().ops(5)) == run_events.OpsCounted(scenario="base", eager=5, functions=())


def test_a_function_that_was_left_alone():
    log = Log().left_alone("helper", 31, rule="no_ops", callers=[(MODEL, 10, "forward")], fullgraph=True)
    assert event_of(log) == run_events.FrameLeft(
        id=None,
        name="helper",
        qualname="Net.helper",
        file=MODEL,
        line=31,
        rule="no_ops",
        fullgraph=True,
        stack=(Frame(MODEL, 10, "forward"), Frame(MODEL, 31, "helper")),
    )


def test_one_recompile_reason_is_a_bare_string():
    event = event_of(Log().artifact("recompile_reasons", "0/0: [x] changed", at="0/1"))
    assert event == ge.RecompileExplained("0/1", ("0/0: [x] changed",))


def test_several_recompile_reasons_are_a_list():
    event = event_of(Log().artifact("recompile_reasons", json.dumps(["0/1: a", "0/0: b"], indent=0), at="0/2"))
    assert event == ge.RecompileExplained("0/2", ("0/1: a", "0/0: b"))


@pytest.mark.parametrize("kind", ["chromium_event", "describe_tensor", "dynamo_guards", "aot_joint_graph", "link"])
def test_records_that_tell_nothing_new_are_ignored(kind: str):
    assert event_of(Log().record(kind, {}, payload="text")) == ev.Ignored()


@pytest.mark.parametrize(
    "name",
    [
        "before_launch",
        "fx_graph_runnable",
        "torch_dynamo_resume_in_f_at_3_ORIGINAL_BYTECODE",
    ],
)
def test_artifacts_that_tell_nothing_new_are_ignored(name: str):
    assert event_of(Log().artifact(name, "text", at="0/0")) == ev.Ignored()


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (Log().record("hologram", {}), "hologram"),
        (Log().artifact("hologram", ""), "artifact:hologram"),
        (Log().ctrace("hologram", {}), "artifact:ctrace_hologram"),
        (Log().record("artifact", "hologram"), "artifact"),
    ],
)
def test_what_nobody_has_heard_of_is_unknown(log: Log, kind: str):
    assert event_of(log) == ev.UnknownEvent(kind)


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (Log().record("str", ["a.py"]), ValueError),
        (Log().record("str", ["a.py", "four"]), ValueError),
        (Log().record("str", 4), TypeError),
        (Log().record("dynamo_start", {"stack": []}), ValueError),
        (Log().record("dynamo_start", {}, at="0/0"), KeyError),
        (Log().record("dynamo_output_graph", {}), ValueError),
        (Log().record("compilation_metrics", [], at="0/0"), ValueError),
        (Log().artifact("ctrace_graph", "no json", at="0/0"), ValueError),
        (Log().ctrace("graph", ["eager", 3], at="0/0"), ValueError),
        (Log().ctrace("graph", {"backend": "eager"}, at="0/0"), ValueError),
        (Log().ctrace("recompile", {"entries": 3}, at="0/0"), ValueError),
        (Log().ctrace("scenario", {"name": "base"}), ValueError),
        (Log().ctrace("ops", {"scenario": "base", "eager": 5}), ValueError),
        (Log().ctrace("ops", {"scenario": "base", "eager": 5, "functions": [], "stacks": [{"ops": 1}]}), ValueError),
        (Log().ctrace("frame", {"name": "f", "qualname": "f", "file": "f.py", "line": 1, "rule": "no_ops"}), ValueError),
        (Log().ctrace("listing", {"file": "f.py", "text": None}), ValueError),
        (Log().artifact("torch_version", "{}"), KeyError),
        (Log().record("dynamo_start", {"stack": [{"filename": 4, "line": 3}]}, at="0/0"), KeyError),
        (Log().record("dynamo_start", {"stack": [{"filename": "4", "line": 3, "name": "f"}]}, at="0/0"), TypeError),
        (Log().metrics("0/0", guard_count="many"), ValueError),
        (Log().metrics("0/0", guard_count=1.5), ValueError),
        (Log().metrics("0/0", entire_frame_compile_time_s="1.5"), ValueError),
        (Log().metrics("0/0", entire_frame_compile_time_s=10**400), ValueError),
        (Log().ctrace("mode", {"build": 1}), ValueError),
        (Log().ctrace("recompile", {}, at="0/0"), ValueError),
        (Log().ctrace("recompile", {"entries": [{"id": "0/0"}]}, at="0/0"), ValueError),
        (Log().ctrace("recompile", {"entries": [{"id": "0/0", "unmet": [{}]}]}, at="0/0"), ValueError),
        (Log().kernel("0/0", "k0", stage="sideways"), ValueError),
        (Log().ctrace("failure", {"phase": "lunch", "type": "KeyError", "message": "'a'"}), ValueError),
        (Log().ctrace("torch", {"torch": "2.13.0", "prefixes": {"/t": "nobody"}}), ValueError),
        (Log().artifact("ctrace_graph", "[" * 100_000, at="0/0"), RecursionError),
    ],
    ids=[
        "file-without-number", "file-with-a-word", "file-no-pair", "start-without-id", "start-without-stack",
        "graph-without-id", "metrics-no-object", "no-json", "payload-no-object", "graph-without-ops",
        "entries-no-list", "scenario-without-calls", "ops-without-functions", "ops-without-frames",
        "frame-without-stack", "listing-without-text", "version-without-version", "frame-without-name",
        "frame-with-a-name-for-a-number", "count-a-text", "count-a-fraction", "seconds-a-text", "seconds-too-many",
        "flag-a-number", "recompile-without-entries", "entry-without-guards", "guard-without-text", "no-stage",
        "no-phase", "no-owner", "deep-list",
    ],
)  # fmt: skip
def test_events_that_are_not_as_they_should_be(log: Log, error: type[Exception]):
    with pytest.raises(error):
        event_of(log)


KINDS_IN_A_COMPILATION = (
    "graph",
    "bytecode",
    "recompile",
    "guards",
    "guard_cost",
    "codegen_started",
    "codegen",
)


@pytest.mark.parametrize("name", ["pass", "fusion", "kernel", "generated"])
def test_what_was_compiled_ahead_of_time_belongs_to_no_compilation(name: str):
    """torch.compiler.precompile lowers graphs that Dynamo did not make; a problem in the log says so."""
    assert isinstance(event_of(Log().ctrace(name, {})), ev.Ignored)


@pytest.mark.parametrize("name", KINDS_IN_A_COMPILATION)
def test_what_belongs_to_a_compilation_says_to_which(name: str):
    data: dict[str, Any] = {
        "stage": "forward", "backend": "eager", "ops": 1 if name == "graph" else [], "entries": [], "rounds": [],
        "before": 1, "after": 1, "refused": 0, "name": "f", "qualname": "f", "file": "f.py", "line": 1,
        "bytes_before": 1, "bytes_after": 1, "language": "cpp", "stacks": [], "seconds": 0.1, "lines": [],
        **GUARD_COST,
    }  # fmt: skip
    event_of(Log().ctrace(name, data, at="0/0"))
    with pytest.raises(ValueError, match="without a compile id"):
        event_of(Log().ctrace(name, data))


@pytest.mark.parametrize(
    "name",
    [
        "subclass_wrapper", "backward_subclass_unwrap", "optimus_BatchLinearFusion", "normalization_pass_pre_grad",
        "b2b_gemm_pass_post_grad", "model__0_forward_1_fused", "fx_collectives_analytical_estimation",
        "sink_waits_iterative_ITERATIVE_RECOMPUTE_ERROR", "forward_ORIGINAL_BYTECODE",
    ],
)  # fmt: skip
def test_artifacts_of_torch_that_no_view_shows_are_known(name: str):
    assert event_of(Log().artifact(name, "text", at="0/0")) == ev.Ignored()


@pytest.mark.parametrize("frame", [
    {"filename": 0, "line": 3, "name": "f"},
    {"filename": 0, "line": 3, "name": "f", "loc": "x = 1"},
    {"filename": -1, "line": 2**40, "name": ""},
    {"filename": "a.py", "line": 3, "name": "f"},
    {"filename": 0, "line": 3.5, "name": "f"},
    {"filename": 0, "line": 3},
    {"filename": True, "line": 3, "name": "f"},
])  # fmt: skip
def test_start_of_a_compilation_in_a_large_log_reads_as_in_a_small_one(frame: dict[str, Any], tmp_path: Path) -> None:
    log = Log().record("dynamo_start", {"stack": [frame]}, at="0/0")
    (path := tmp_path / "job.log").write_text(log.text)

    def found(entry: Any) -> Any:
        try:
            return decode(entry)
        except (ValueError, KeyError, TypeError) as error:
            return repr(error)

    (small,), (large,) = read(path), read(path, later=left_in_log, types=type_of_data)
    assert found(small) == found(large)


DATA = ROOT / "tests" / "data"


UNREAD = {"built_code": ("stage",)}
"""Fields that an older ctrace wrote for nobody, by kind."""
KINDS = {f"artifact:ctrace_{kind.KIND}": kind for kind in OUR_RECORDS}


def recorded() -> list[Path]:
    """Return the recorded logs and saved runs."""
    kinds = ("*.log", "diff/*.log.gz", "ranks/*/*", "runs/*.tar.gz")
    return sorted(path for kind in kinds for path in DATA.glob(kind))


def text_of(path: Path) -> bytes:
    """Return a log's text, also of a saved run."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as packed:
            (member,) = (each for each in packed.getmembers() if each.name.endswith("/trace.log"))
            log = packed.extractfile(member)
            assert log is not None
            return log.read()
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def entries(path: Path) -> Iterator[LogEntry]:
    """Yield the records of ctrace's in a log."""
    for item in parse(text_of(path).decode("utf-8", "replace").splitlines(keepends=True)):
        if isinstance(item, LogEntry) and item.kind.startswith("artifact:ctrace_"):
            yield item


def kept(written: Any, read: Any) -> Any:
    """Return of what was read only the fields that were written: older logs lack some, and trials leave out empty ones."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {
            name: kept(value, read.get(name) if name in read or value else value) for name, value in written.items()
        }
    if written is None and read == "":  # null for a text is a missing field
        return None
    if isinstance(written, list) and isinstance(read, list | tuple) and len(written) == len(read):
        return [kept(one, other) for one, other in zip(written, read, strict=True)]
    return sorted(read) if isinstance(read, set | frozenset) else read


@pytest.mark.parametrize("path", sampled(recorded()), ids=lambda path: path.name)
def test_records_read_as_they_were_written(path: Path) -> None:
    for entry in entries(path):
        event = decode(entry)
        assert not isinstance(event, UnknownEvent), entry.kind
        if (kind := KINDS.get(entry.kind)) is not None:
            assert isinstance(event, kind), entry.kind
        if isinstance(event, Record):
            written = json.loads(entry.payload)
            for name in UNREAD.get(event.KIND, ()):
                written.pop(name, None)
            assert kept(written, payload_of(event)) == written, entry.kind


def declared(kind: type[Record] = Record) -> Iterator[type[Record]]:
    """Yield the records that ctrace declares, as far as the decoder imports them."""
    if "KIND" in vars(kind) and kind.__module__.startswith("ctrace."):
        yield kind
    for each in kind.__subclasses__():
        yield from declared(each)


def test_every_record_that_is_declared_is_decoded_under_a_name_of_its_own() -> None:
    assert len({kind.KIND for kind in OUR_RECORDS}) == len(OUR_RECORDS)
    assert set(declared()) == set(OUR_RECORDS)


def test_an_older_reader_gets_no_field_of_a_trial_that_it_would_refuse() -> None:
    tried = Tried(Trial(settings=(("capture_scalar_outputs", True),)), None, 1.5, error="no")
    settings = (("capture_scalar_outputs", True),)
    assert payload_of(tried) == {"trial": {"settings": settings}, "counts": None, "seconds": 1.5, "error": "no"}


def test_null_for_a_text_or_a_count_is_a_missing_field() -> None:
    unmet = [{"guard": "L['n'] == 2", "hint": None}, {"guard": "L['m'] == 2", "hint": "here"}]
    failed = decoded("recompile", {"entries": [{"id": "0/0", "unmet": unmet, "number": None, "other": 1}]})
    (entry,) = failed.entries
    assert (entry.number, [each.hint for each in entry.unmet]) == (2, ["", "here"])


@pytest.mark.parametrize("schema", [LOG_SCHEMA + 1, 2**63, 10**30])
def test_a_log_of_any_later_schema_is_refused_as_newer(schema: int) -> None:
    log = Log().started(schema)
    with pytest.raises(RunError, match=f"newer ctrace .schema {schema};"):
        log.session()


def test_an_empty_text_in_place_of_a_word_is_a_missing_field() -> None:
    done = decoded("scenario", {"name": "base", "calls": 2, "kind": "", "outcome": "", "rule": ""})
    assert (done.kind, done.outcome, done.rule) == (ScenarioKind.GIVEN, Outcome.DONE, None)


def test_a_word_that_a_record_needs_is_not_empty() -> None:
    with pytest.raises(ValueError, match="missing required field `kind`"):
        decoded("plan", {"scenarios": [{"name": "base", "kind": ""}]})


def code_of(**changed: Any) -> dict[str, Any]:
    """Return the code of a function that returns None, as the log has it."""
    lists: dict[str, Any] = {name: [] for name in ("variables", "cells", "free", "names", "constants", "handlers")}
    numbers = dict.fromkeys(("line", "flags", "arguments", "positional_only", "keyword_only"), 1)
    named = {"python": "3.11", "name": "f", "qualname": "f", "file": "a.py"}
    return {**named, **numbers, **lists, "instructions": [[0, "RETURN_VALUE", None, "", 1, None]], **changed}


def rewritten_of(code: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a function whose code is the same before and after."""
    sizes = {"line": 1, "bytes_before": 2, "bytes_after": 2, "callers": []}
    return {"name": "f", "qualname": "f", "file": "a.py", **sizes, "code": code, "new_code": code}


def test_code_reads_as_it_is_written() -> None:
    seen = decoded("bytecode", rewritten_of(code_of(handlers=[[0, 2, 4, 1, True]])))
    assert seen.code.instructions == (Instruction(0, "RETURN_VALUE", None, "", 1, None),)
    assert seen.code.handlers == (Handler(0, 2, 4, 1, lasti=True),)


@pytest.mark.parametrize(
    "changed",
    [
        {"instructions": [[0, "RETURN_VALUE", None, "", 1]]},
        {"instructions": [[0, "RETURN_VALUE", None, "", 1, None, None]]},
        {"handlers": [[0, 2, 4, 1]]},
        {"handlers": [[0, 2, 4, 1, True, True]]},
        {"handlers": None},
    ],
)
def test_rows_of_code_with_another_length_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected `array`"):
        decoded("bytecode", rewritten_of(code_of(**changed)))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("listing", {"file": "a.py", "text": None}),
        ("speed", {"why": None}),
        ("caches", {"kind": None}),
        ("torch", {"torch": ""}),
        ("start", {"schema": 10**30 + 1, "ctrace": "9", "python": "3.11", "cwd": "/", "prefixes": {}}),
        ("inductor_guards", {"seen": True}),
        ("danger", {"kind": "unexplained", "subject": "", "proven": False}),
        ("danger", {"scenario": None, "call": 0, "kind": "unexplained", "subject": "", "proven": False}),
        ("files", {"files": {"a.py": None}}),
        ("recompile", {"entries": None}),
        ("recompile", {"entries": [None]}),
        ("recompile", {"entries": [], "closure": None}),
        ("recompile", {"entries": [], "seconds": float("nan")}),
        ("call", {"scenario": "base", "index": 10**30}),
    ],
)
def test_what_is_damaged_is_refused(name: str, data: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected|missing|out of range"):
        decoded(name, data)


def test_what_no_field_holds_may_be_anything() -> None:
    data = {"scenario": "base \udc80", "index": 1, "later": float("nan"), "<compile id>": 3}
    assert decoded("call", data) == CallBegan("base \udc80", 1)


def test_what_older_readers_would_not_find_is_written_as_before() -> None:
    """A number of another library is a number, and what JSON does not know is text."""

    class Count(int):
        pass

    assert payload_of(CallBegan("base", Count(3))) == {"scenario": "base", "index": 3}
    assert payload_of(Listing(Path("a.py"), "x")) == {"file": "a.py", "text": "x"}  # type: ignore[arg-type]
    frames = (Frame("a.py", 3, "f"),)
    assert payload_of(GuardStack(frames)) == {"frames": ({"file": "a.py", "line": 3, "name": "f"},)}  # type: ignore[arg-type]
