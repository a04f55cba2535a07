"""Entries become typed events."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.events import core as ev
from ctrace.inspector.facts.events import guards as ge
from ctrace.inspector.facts.events import run, tracing
from ctrace.inspector.facts.events.fusion import FusionDone
from ctrace.inspector.facts.events.kernels import KernelMade
from ctrace.inspector.facts.events.scenarios import ScenarioDone
from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.fusion import Fusion, FusionRound
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Failure, FailurePhase
from ctrace.inspector.log.decode.dispatch import decode, left_in_log, type_of_data
from ctrace.inspector.log.decode.fusion import fusion_of
from ctrace.inspector.log.reader import Entry, read
from tests.support.helpers import GUARD_COST, HOME, MODEL, PROJECT, Log, decoded


def event_of(log: Log) -> ev.Event:
    *_, entry = log.entries()
    assert isinstance(entry, Entry)
    return decode(entry)


@pytest.mark.parametrize(
    ("log", "event"),
    [
        (Log().record("str", ["a.py", 4]), ev.FileName(4, "a.py")),
        (Log().artifact("torch_version", '{"pytorch_version": "2.12.0"}'), run.TorchFound("2.12.0", {})),
        (
            Log().ctrace("torch", {"torch": "2.13.0", "prefixes": {"/t": "torch"}}),
            run.TorchFound("2.13.0", {"/t": Owner.TORCH}),
        ),
        (Log().ctrace("mode", {"build": True}), run.ModeChosen(True)),
        (Log().ctrace("device", {"device": "cpu"}), run.DeviceUsed("cpu")),
        (Log().ctrace("call", {"scenario": "base", "index": 1}), run.CallBegan("base", 1)),
        (Log().scenario("wide", 2), ScenarioDone(name="wide", calls=2)),
        (Log().listing("x = 1", "a.py"), run.Listing("a.py", "x = 1")),
        (
            Log().record("dynamo_start", {"stack": [{"filename": 4, "line": 3, "name": "f"}]}, at="0/1", attempt=2),
            ev.CompileStarted("0/1", 2, (ev.StackFrame(4, 3, "f"),)),
        ),
        (Log().artifact("dynamo_graph_break_reason", "text", at="0/0"), ev.BreakReported("0/0", "text")),
        (Log().record("dynamo_output_graph", {}, at="0/0"), tracing.GraphTraced("0/0")),
        (Log().ctrace("graph", {"backend": "eager", "ops": 3}, at="0/0"), tracing.GraphMade("eager", 3, id="0/0")),
        (
            Log().ctrace("graph", {"backend": "eager", "ops": 3, "wraps": "Linear"}, at="0/0"),
            tracing.GraphMade("eager", 3, "Linear", id="0/0"),
        ),
        (
            Log().ctrace(
                "modules",
                {"traced": False, "modules": [{"path": "layers.0", "class": "Block", "nodes": ["add", "mul"]}]},
                at="0/0",
            ),
            tracing.ModulesSeen(False, (tracing.ModuleNodes("layers.0", "Block", ("add", "mul")),), id="0/0"),
        ),
        (Log().metrics("0/0", guard_count=4), ev.Measured("0/0", False, guards=4, metrics={"guard_count": 4})),
        (Log().metrics("0/0", backward=True), ev.Measured("0/0", True, metrics={})),
        (Log().ctrace("codegen_started", {"stage": "forward"}, at="0/0"), run.CodegenStarted(Stage.FORWARD, id="0/0")),
        (
            Log().ctrace("codegen", {"stage": "forward", "seconds": 0.5}, at="0/0"),
            run.CodegenEnded(Stage.FORWARD, 0.5, id="0/0"),
        ),
        (
            Log().ctrace("codegen_failed", {"stage": "forward", "error": "no"}, at="0/0"),
            run.CodegenFailed(Stage.FORWARD, "no", id="0/0"),
        ),
        (
            Log().kernel("0/0", "k0", ["stack"], ["aten.exp"]),
            KernelMade(Stage.INFERENCE, "k0", "cpp", ("aten.exp",), ("stack",), id="0/0"),
        ),
        (
            Log().counters(frames={"ok": 1}, stats={"unique_graphs": 2}, recompile_limit=4),
            run.Counted(frames={"ok": 1}, stats={"unique_graphs": 2}, recompile_limit=4),
        ),
        (Log().counters(switched_off="X=1"), run.Counted(switched_off="X=1")),
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
        (Log().ctrace("problem", {"what": "no device"}), run.ProblemMet("no device")),
        (Log().ended(), run.Ended()),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, Log) else "",
)
def test_events(log: Log, event: ev.Event):
    assert event_of(log) == event


def test_start_holds_versions_and_folders():
    entry, _ = Log().started().entries()
    assert isinstance(entry, Entry)
    started = decode(entry)
    assert isinstance(started, run.Started)
    assert (started.schema, started.ctrace, started.triton) == (1, "0.1.0", None)
    assert (started.cwd, started.home) == (PROJECT, HOME)
    assert "library" in started.prefixes.values()


def test_a_start_of_an_older_ctrace_says_not_where_it_is():
    data = {"schema": 1, "ctrace": "0.1.0", "python": "3.11.7", "triton": None, "cwd": PROJECT, "prefixes": {}}
    started = event_of(Log().ctrace("start", data))
    assert isinstance(started, run.Started)
    assert started.home == ""


def test_forward_metrics():
    values: dict[str, Any] = {
        "co_name": "forward", "co_filename": MODEL, "co_firstlineno": 8, "guard_count": 9, "graph_op_count": 2,
        "entire_frame_compile_time_s": 1.0, "backend_compile_time_s": 0.7, "inductor_compile_time_s": 0.4,
        "fail_type": "Unsupported", "fail_reason": "no such thing", "is_forward": True,
    }  # fmt: skip
    assert event_of(Log().metrics("0/0", **values)) == ev.Measured(
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
    assert isinstance(measured, ev.Measured)
    assert measured.versions == {"torch": "2.11.0+cu130", "python": "3.12.3"}


def test_what_a_log_says_first_of_versions_holds():
    of_metrics = Log().metrics("0/0", pytorch_version="2.11.0", python_version="3.12.3")
    assert (of_metrics.session().environment.torch, of_metrics.session().environment.python) == ("2.11.0", "3.12.3")
    found = Log().artifact("torch_version", '{"pytorch_version": "2.13.0"}').metrics("0/0", pytorch_version="2.11.0")
    assert found.session().environment.torch == "2.13.0"


def test_backward_metrics_are_in_seconds_too():
    log = Log().metrics("0/0", backward=True, backward_cumulative_compile_time_us=1_500_000, inductor_compile_time_s=1)
    values = {"backward_cumulative_compile_time_us": 1_500_000, "inductor_compile_time_s": 1}
    assert event_of(log) == ev.Measured("0/0", True, inductor_seconds=1.0, backward_seconds=1.5, metrics=values)


def test_fusion():
    rounds = [{"before": 5, "after": 3, "fused": [["op1", "op2"]]}, {"before": 3, "after": 3, "fused": []}]
    data = {"stage": "backward", "before": 5, "after": 3, "rounds": rounds, "refused": 2}
    fusion = Fusion("0/0", Stage.BACKWARD, 5, 3, (FusionRound(5, 3, (("op1", "op2"),)), FusionRound(3, 3)), refused=2)
    assert fusion_of(decoded("fusion", data)) == FusionDone("0/0", fusion)


def test_bytecode():
    assert event_of(Log().bytecode("0/0", "forward", 8, callers=[(MODEL, 50, "<module>")])) == tracing.BytecodeSeen(
        "forward", "Net.forward", MODEL, 8, 48, 164, callers=(Frame(MODEL, 50, "<module>"),), id="0/0"
    )


def test_bytecode_of_a_log_without_callers():
    data = {"name": "f", "qualname": "f", "file": "a.py", "line": 1, "bytes_before": 2, "bytes_after": 3}
    event = event_of(Log().ctrace("bytecode", data, at="0/0"))
    assert event == tracing.BytecodeSeen("f", "f", "a.py", 1, 2, 3, id="0/0")


def test_ops_by_function_and_by_stack():
    log = Log().ops(5, 2, functions=[(MODEL, 8, "Net.forward", 5)], stacks=[([(MODEL, 10, "forward")], 2)])
    assert event_of(log) == run.OpsCounted(
        scenario="base",
        eager=5,
        left=2,
        functions=(run.FunctionOps(MODEL, "Net.forward", 8, 5),),
        stacks=(run.LeftOps((Frame(MODEL, 10, "forward"),), 2),),
    )


def test_ops_that_were_counted_in_eager_alone():
    assert event_of(Log().ops(5)) == run.OpsCounted(scenario="base", eager=5, functions=())


def test_a_function_that_was_left_alone():
    log = Log().left_alone("helper", 31, rule="no_ops", callers=[(MODEL, 10, "forward")], fullgraph=True)
    assert event_of(log) == run.FrameLeft(
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
    assert event_of(log) == ev.Unknown(kind)


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
