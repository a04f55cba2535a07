"""From the entries of a log to a session."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.build import build
from ctrace.inspector.decode import _DECODERS
from ctrace.inspector.errors import RunError
from ctrace.inspector.model import (
    BreakKind,
    Bytecode,
    CacheUse,
    Cause,
    Coverage,
    Failure,
    FailurePhase,
    FusionRound,
    Owner,
    Scenario,
    Session,
    Stage,
    Target,
    Verdict,
)
from tests.helpers import MODEL, PROJECT, SITE, Log, any_json, fuzzing, parsed, unmet

HELPER = (MODEL, 31, "helper", "print(x)")
LIBRARY = (f"{SITE}/einops/einops.py", 9, "rearrange", "cache()")
TORCH = (f"{SITE}/torch/nn/functional.py", 77, "embedding", "graph_break()")


def whole() -> Log:
    """A capture of one model, compiled whole, called twice."""
    return Log().started().compiled("0/0").scenario("base", 2, 5, 5).ended()


def kinds(session: Session) -> list[list[str]]:
    return [[cause.kind for cause in recompile.causes] for recompile in session.recompiles]


SPECIMENS: dict[str, Any] = {
    "str": ["a.py", 7],
    "dynamo_start": {"stack": [{"filename": 0, "line": 8, "name": "forward"}]},
    "dynamo_output_graph": {"sizes": {"x": [4]}},
    "compilation_metrics": {
        "co_name": "forward", "co_filename": MODEL, "co_firstlineno": 8, "guard_count": 9, "graph_op_count": 2,
        "entire_frame_compile_time_s": 1.0, "backend_compile_time_s": 0.7, "inductor_compile_time_s": 0.4,
        "fail_type": "Unsupported", "fail_reason": "no such thing",
    },
    "bwd_compilation_metrics": {"backward_cumulative_compile_time_us": 3, "inductor_compile_time_s": 0.4},
    "artifact:torch_version": {"pytorch_version": "2.13.0"},
    "artifact:recompile_reasons": ["0/0: L['n'] == 2"],
    "artifact:ctrace_start": {
        "schema": 1, "ctrace": "0.1.0", "python": "3.11.7", "triton": None, "cwd": PROJECT, "prefixes": {PROJECT: "user"},
    },
    "artifact:ctrace_torch": {"torch": "2.13.0", "prefixes": {PROJECT: "user"}},
    "artifact:ctrace_mode": {"build": False},
    "artifact:ctrace_device": {"device": "cpu"},
    "artifact:ctrace_call": {"scenario": "base", "index": 0},
    "artifact:ctrace_scenario": {"name": "base", "calls": 2, "eager_ops": 5, "compiled_ops": 4},
    "artifact:ctrace_graph": {"backend": "eager", "ops": 3, "wraps": None},
    "artifact:ctrace_bytecode": {
        "name": "forward", "qualname": "forward", "file": MODEL, "line": 8, "bytes_before": 48, "bytes_after": 99,
    },
    "artifact:ctrace_recompile": {
        "entries": [unmet("L['n'] == 2", lines=(9,), now="3"), {"id": "0/0", "unmet": [], "invalid": "gone"}],
        "closure": ["n"],
    },
    "artifact:ctrace_fusion": {
        "stage": "forward", "before": 3, "after": 2, "rounds": [{"before": 3, "after": 2, "fused": [["a", "b"]]}],
        "refused": 0,
    },
    "artifact:ctrace_kernel": {
        "stage": "forward", "name": "k0", "language": "cpp", "ops": ["aten.exp"],
        "stacks": [f'File "{MODEL}", line 9, in forward'],
    },
    "artifact:ctrace_codegen_started": {"stage": "forward"},
    "artifact:ctrace_codegen": {"stage": "forward", "seconds": 0.5},
    "artifact:ctrace_codegen_failed": {"stage": "forward", "error": "ValueError: no"},
    "artifact:ctrace_counters": {"frames": {"ok": 1}, "graph_break": {}, "unimplemented": {}, "recompile_limit": 8},
    "artifact:ctrace_failure": {"phase": "run", "type": "KeyError", "message": "'a'", "file": MODEL, "line": 9, "todo": ""},
    "artifact:ctrace_problem": {"what": "fusion could not be recorded"},
    "artifact:ctrace_end": {},
}  # fmt: skip
"""A sound record of every kind that holds data."""

ODD_VALUES = (None, True, -1, 10**30, 1.5, float("inf"), "", "x", [], [[]], ["x", 1], {}, {"x": {}})

NO_JSON = {
    "nothing": "", "open": "{", "words": "no json", "not-a-number": "NaN", "infinity": "1e999", "long-number": "9" * 5000,
    "deep-list": "[" * 100_000, "deep-object": '{"a": ' * 100_000, "string": '"x"', "list": "[{}]",
}  # fmt: skip
"""Payloads that hold no object, by name: some are too long to be shown."""


def specimen_log(kind: str, data: Any) -> Log:
    """Put one record of a kind into an otherwise sound log, at its end, where nothing replaces it."""
    log = Log().started().compiled("0/0").compiled("0/1").breaks("0/1").scenario("first", 2, 5, 5)
    if kind.startswith("artifact:"):
        text = json.dumps(data, indent=0 if isinstance(data, list) else None)
        return log.artifact(kind.removeprefix("artifact:"), text, at="0/1").ended()
    return log.record(kind, data, at="0/1").ended()


def replaced(data: Any) -> Iterator[Any]:
    """Replace every part of some data, one at a time, by every odd value."""
    yield from ODD_VALUES
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, part in parts:
        for value in replaced(part):
            copied = data.copy()
            copied[key] = value
            yield copied


class TestEnvironment:
    def test_versions(self):
        log = Log().started().ctrace("mode", {"build": True}).ctrace("device", {"device": "cpu"}).graph("0/0").ended()
        environment = log.session().environment
        assert (environment.ctrace, environment.torch, environment.python) == ("0.1.0", "2.13.0", "3.11.7")
        assert (environment.triton, environment.device, environment.built) == (None, "cpu", True)
        assert (environment.backend, environment.cwd) == ("eager", PROJECT)
        assert environment.prefixes[f"{SITE}/torch"] == "torch"

    def test_backends_are_named_once(self):
        log = Log().graph("0/0", backend="eager").graph("1/0", backend="inductor").graph("2/0", backend="eager")
        assert log.session().environment.backend == "eager, inductor"

    def test_a_log_of_torch_alone_says_its_version(self):
        log = Log().artifact("torch_version", json.dumps({"pytorch_version": "2.12.1"}))
        environment = log.session().environment
        assert (environment.torch, environment.ctrace, environment.backend) == ("2.12.1", "", "")

    def test_the_target_is_what_the_caller_says(self):
        target = Target("model.py", "model")
        assert build([], target).target == target

    def test_a_newer_log_is_refused(self):
        with pytest.raises(RunError, match="newer ctrace") as caught:
            Log().started(schema=2).session()
        assert "upgrade" in caught.value.todo


class TestVerdict:
    def test_compiled(self):
        assert whole().session().verdict is Verdict.COMPILED

    def test_a_break_is_partial(self):
        assert Log().compiled("0/0").breaks("0/0").session().verdict is Verdict.PARTIAL

    def test_a_skip_is_partial(self):
        log = Log().compiled("0/0").frame("1/0", "helper", 30).metrics("1/0", fail_type="Unsupported")
        assert log.session().verdict is Verdict.PARTIAL

    def test_a_limit_is_partial(self):
        assert Log().compiled("0/0").limit_hit("0/1").session().verdict is Verdict.PARTIAL

    def test_no_graph_is_not_compiled(self):
        assert Log().frame("0/0").breaks("0/0").session().verdict is Verdict.NOT_COMPILED
        assert Log().session().verdict is Verdict.NOT_COMPILED

    def test_a_failure_is_failed(self):
        failure = Failure(FailurePhase.CRASH, "SIGSEGV", "the program crashed")
        assert whole().session(failure).verdict is Verdict.FAILED


class TestGraphs:
    def test_one_graph_for_one_compilation(self):
        (graph,) = Log().compiled("0/0", "forward", 8, ops=3).session().graphs
        assert (graph.id, graph.function, graph.file, graph.line, graph.ops) == ("0/0", "forward", MODEL, 8, 3)

    def test_a_restarted_compilation_counts_once(self):
        log = Log().frame("0/0").graph("0/0", ops=7).frame("0/0", attempt=1).graph("0/0", ops=3)
        session = log.session()
        assert [graph.ops for graph in session.graphs] == [3]
        assert [compilation.attempts for compilation in session.compilations] == [2]

    def test_a_log_of_torch_alone_has_ops_in_its_metrics(self):
        log = Log().frame("0/0").record("dynamo_output_graph", {}, at="0/0").metrics("0/0", graph_op_count=5)
        assert [graph.ops for graph in log.session().graphs] == [5]

    def test_a_resumed_part_is_at_the_line_it_goes_on_at(self):
        (graph,) = Log().compiled("1/0", "torch_dynamo_resume_in_forward_at_12", 8).session().graphs
        assert (graph.function, graph.line) == ("forward", 12)

    def test_a_failed_compilation_has_no_graph(self):
        assert Log().frame("0/0").metrics("0/0", fail_type="Unsupported").session().graphs == ()


class TestCompilations:
    def test_what_metrics_and_hooks_say(self):
        log = (
            Log()
            .frame("0/0")
            .bytecode("0/0")
            .graph("0/0")
            .metrics("0/0", guard_count=9, entire_frame_compile_time_s=0.5)
        )
        (compilation,) = log.session().compilations
        assert (compilation.guards, compilation.seconds) == (9, 0.5)
        assert (compilation.frame, compilation.attempts) == ("0", 1)
        assert compilation.bytecode == Bytecode(48, 164)

    def test_what_nobody_measured_is_none(self):
        (compilation,) = Log().frame("0/0").session().compilations
        assert (compilation.guards, compilation.seconds, compilation.bytecode) == (None, None, None)

    def test_a_failed_one_says_why(self):
        log = Log().frame("0/0").metrics("0/0", fail_type="Unsupported", fail_reason="no such thing")
        (compilation,) = log.session().compilations
        assert (compilation.fail_type, compilation.fail_reason) == ("Unsupported", "no such thing")

    def test_the_place_comes_from_the_metrics_if_from_nowhere_else(self):
        log = Log().metrics("0/0", co_name="forward", co_filename=MODEL, co_firstlineno=8)
        (compilation,) = log.session().compilations
        assert (compilation.function, compilation.file, compilation.line) == ("forward", MODEL, 8)

    def test_the_place_comes_from_another_compilation_of_the_same_code(self):
        _, second = Log().frame("0/0", "forward", 8).metrics("0/1").session().compilations
        assert (second.function, second.file, second.line) == ("forward", MODEL, 8)

    def test_the_place_does_not_come_from_other_code(self):
        _, second = Log().frame("1/0", "forward", 8).metrics("11/0").session().compilations
        assert second.function == "?"

    def test_a_place_that_nobody_knows(self):
        (compilation,) = Log().record("dynamo_output_graph", {}, at="0/0").session().compilations
        assert (compilation.function, compilation.file, compilation.line) == ("?", "?", 0)


class TestBreaks:
    def test_a_site(self):
        (found,) = Log().started().compiled("0/0").breaks("0/0").session().breaks
        assert (found.gb, found.kind, found.owner) == (("GB0059",), BreakKind.BREAK, Owner.USER)
        assert (found.file, found.line, found.function, found.source) == (MODEL, 10, "forward", "print(x)")
        assert (found.times, found.compilations) == (1, ("0/0",))

    def test_reports_of_one_site_are_one_break(self):
        log = Log().breaks("0/0").breaks("0/1").breaks("0/1")
        (found,) = log.session().breaks
        assert (found.times, found.compilations) == (3, ("0/0", "0/1"))

    @pytest.mark.parametrize(
        "other",
        [
            {"gb": ("0124",)},
            {"frames": ((MODEL, 11, "forward", "print(x)"),)},
            {"frames": ((f"{PROJECT}/other.py", 10, "forward", "print(x)"),)},
            {"frames": ((MODEL, 10, "forward", "print(x)"), LIBRARY)},
        ],
        ids=["id", "line", "file", "owner"],
    )
    def test_what_tells_two_sites_apart(self, other: dict[str, Any]):
        assert len(Log().started().breaks("0/0").breaks("0/0", **other).session().breaks) == 2

    def test_what_does_not_tell_two_sites_apart(self):
        (found,) = Log().breaks("0/0").breaks("0/0", title="Other words", hints=()).session().breaks
        assert found.times == 2

    def test_a_break_is_at_the_innermost_line_of_the_user(self):
        frames = ((MODEL, 10, "forward", "rearrange(x)"), LIBRARY)
        (found,) = Log().started().breaks("0/0", frames=frames).session().breaks
        assert (found.line, found.function, found.owner) == (10, "forward", Owner.LIBRARY)

    def test_the_owner_is_that_of_the_innermost_frame(self):
        frames = ((MODEL, 10, "forward", "embedding(x)"), TORCH)
        (found,) = Log().started().breaks("0/0", frames=frames).session().breaks
        assert found.owner is Owner.TORCH

    def test_a_stack_without_the_user_keeps_its_innermost_line(self):
        (found,) = Log().started().breaks("0/0", frames=(TORCH, LIBRARY)).session().breaks
        assert (found.file, found.line) == LIBRARY[:2]

    def test_ways_to_a_site_start_at_the_users_first_frame(self):
        runner = ("/usr/lib/python3.11/runpy.py", 3, "run_path", "exec(code)")
        one = (runner, (MODEL, 50, "<module>", "model(x)"), HELPER)
        other = (runner, (MODEL, 51, "<module>", "model(y)"), HELPER)
        (found,) = Log().started().breaks("0/0", frames=one).breaks("1/0", frames=other).session().breaks
        assert [[frame.line for frame in path] for path in found.paths] == [[50, 31], [51, 31]]

    def test_torchs_own_words_stand_in_for_advice(self):
        (found,) = (
            Log().breaks("0/0", gb=("9999",), explanation="Too new.", hints=("Wait.", "Or not.")).session().breaks
        )
        assert (found.reason, found.fix) == ("Too new.", "Wait.")

    def test_advice_goes_before_torchs_words(self):
        (found,) = Log().breaks("0/0", gb=("0124",), hints=("Wait.",)).session().breaks
        assert ".item()" in found.reason
        assert "Wait" not in found.fix

    def test_a_disabled_function_says_its_authors_reason(self):
        explanation = "Skip calling `torch.compiler.disable()`d function (reason: talks to the disk)"
        (found,) = Log().breaks("0/0", gb=("0098",), explanation=explanation).session().breaks
        assert found.kind is BreakKind.DISABLED
        assert found.reason.endswith("Its author says: talks to the disk.")

    def test_a_disabled_function_without_a_reason(self):
        (found,) = Log().breaks("0/0", gb=("0098",), explanation="Skip calling it").session().breaks
        assert "author says" not in found.reason

    def test_a_report_without_a_place_is_no_break(self):
        assert Log().artifact("dynamo_graph_break_reason", "words", at="0/0").session().breaks == ()


class TestSkips:
    def skipped(self, at: str = "0/0", **values: Any) -> Log:
        failed = {"fail_type": "Unsupported", "fail_reason": "no such thing\nmore of it", **values}
        return Log().started().frame(at, "forward", 8).metrics(at, **failed)

    def test_a_failed_compilation_is_a_skip(self):
        (skip,) = self.skipped().session().skips
        assert (skip.function, skip.file, skip.line) == ("forward", MODEL, 8)
        assert (skip.reason, skip.break_index) == ("no such thing", None)

    def test_a_skip_names_the_break_that_caused_it(self):
        log = self.skipped("1/0").breaks("0/0", gb=("0124",)).breaks("1/0", frames=(HELPER,))
        session = log.session()
        (skip,) = session.skips
        assert skip.break_index == 1
        assert skip.reason == session.breaks[1].reason

    def test_a_function_is_skipped_once(self):
        log = self.skipped().frame("0/1", "forward", 8).metrics("0/1", fail_type="Unsupported")
        assert len(log.session().skips) == 1

    def test_a_resumed_part_is_named_by_its_function(self):
        log = Log().frame("1/0", "torch_dynamo_resume_in_forward_at_12", 8).metrics("1/0", fail_type="Unsupported")
        assert [skip.function for skip in log.session().skips] == ["forward"]

    def test_functions_of_libraries_are_not_the_users_to_change(self):
        log = Log().started().frame("0/0", "rearrange", 9, LIBRARY[0]).metrics("0/0", fail_type="Unsupported")
        assert log.session().skips == ()

    def test_a_limit_is_no_skip(self):
        assert Log().compiled("0/0").limit_hit("0/1").session().skips == ()

    def test_the_failure_that_ended_the_run_is_no_skip(self):
        failure = Failure(FailurePhase.RUN, "Unsupported", "fullgraph=True")
        assert self.skipped().session(failure).skips == ()

    def test_another_failure_than_the_skip_leaves_it(self):
        assert len(self.skipped().session(Failure(FailurePhase.RUN, "KeyError", "'a'")).skips) == 1

    def test_a_reason_is_never_empty(self):
        (skip,) = self.skipped(fail_reason=None).session().skips
        assert skip.reason


class TestRecompiles:
    SIZE = "tensor 'L['x']' size mismatch at index 0. expected 4, actual 8"

    def again(self, *entries: dict[str, Any]) -> Log:
        return Log().started().compiled("0/0").recompile("0/1", *entries).compiled("0/1")

    def test_the_first_compilation_of_each_function_is_none(self):
        assert Log().compiled("0/0").compiled("1/0", "helper", 30).session().recompiles == ()

    def test_a_second_one_has_a_cause(self):
        (recompile,) = self.again(unmet(self.SIZE)).session().recompiles
        assert (recompile.compilation, recompile.function, recompile.file, recompile.line) == (
            "0/1",
            "forward",
            MODEL,
            8,
        )
        (cause,) = recompile.causes
        assert (cause.kind, cause.subject, cause.was, cause.now) == ("size", "x.size(0)", "4", "8")
        assert cause.fix

    def test_the_nearest_entry_explains(self):
        far, near = unmet("L['n'] == 1", self.SIZE, entry="0/1"), unmet("L['flag'] == True", entry="0/0")
        assert kinds(self.again(far, near).session()) == [["argument_value"]]

    def test_the_newer_entry_explains_on_a_tie(self):
        newer, older = unmet("L['n'] == 2", entry="0/1"), unmet("L['n'] == 1", entry="0/0")
        ((cause,),) = (recompile.causes for recompile in self.again(newer, older).session().recompiles)
        assert cause.was == "2"

    @pytest.mark.parametrize("swapped", [False, True])
    def test_the_entry_whose_tensor_got_furthest_explains(self, swapped: bool):
        other_dtype = unmet("tensor 'L['x']' dtype mismatch. expected Double, actual Float", entry="0/1")
        other_stride = unmet("tensor 'L['x']' stride mismatch at index 0. expected 5, actual 1", entry="0/0")
        entries = (other_stride, other_dtype) if swapped else (other_dtype, other_stride)
        assert kinds(self.again(*entries).session()) == [["stride"]]

    def test_fewer_unmet_guards_go_before_how_far_a_tensor_got(self):
        two = unmet("tensor 'L['x']' stride mismatch at index 0. expected 5, actual 1", "L['n'] == 2", entry="0/1")
        one = unmet("tensor 'L['x']' dtype mismatch. expected Double, actual Float", entry="0/0")
        assert kinds(self.again(two, one).session()) == [["dtype"]]

    def test_an_entry_for_none_is_nearer_than_one_for_a_tensor(self):
        tensor = unmet("expected type of 'L['m']' to be a tensor type, ' but found <class 'NoneType'>", entry="0/1")
        assert kinds(self.again(tensor, unmet(self.SIZE)).session()) == [["size"]]

    def test_an_entry_that_torch_threw_away_explains_where_no_other_does(self):
        gone = {"id": "0/0", "unmet": [], "invalid": "Cache line invalidated because L['self'] got deallocated"}
        ((cause,),) = (recompile.causes for recompile in self.again(gone).session().recompiles)
        assert (cause.kind, cause.subject) == ("identity", gone["invalid"])
        assert kinds(self.again(gone, unmet(self.SIZE, entry="0/1")).session()) == [["size"]]

    def test_a_value_of_an_enclosing_function(self):
        data = {"entries": [unmet("L['rate'] == 0.5", now="1.5")], "closure": ["rate"]}
        log = Log().started().compiled("0/0").ctrace("recompile", data, at="0/1").compiled("0/1")
        assert kinds(log.session()) == [["closure_value"]]

    def test_the_line_of_a_value_that_a_break_returned_is_that_of_the_call(self):
        resumed, entry = "torch_dynamo_resume_in_forward_at_12", unmet("L['___stack0'] == 2.0", lines=(14,))
        log = Log().started().compiled("1/0", resumed).recompile("1/1", entry).compiled("1/1", resumed)
        ((cause,),) = (recompile.causes for recompile in log.session().recompiles)
        assert (cause.kind, cause.line) == ("break_result", 12)

    def test_an_entry_without_unmet_guards_explains_nothing(self):
        assert kinds(self.again(unmet(), unmet(self.SIZE)).session()) == [["size"]]

    def test_a_cause_is_told_once(self):
        assert kinds(self.again(unmet("L['n'] == 2", "L['n'] == 2")).session()) == [["argument_value"]]

    def test_the_line_is_the_innermost_of_the_user(self):
        entry = unmet("L['n'] == 2", lines=(20, 9))
        entry["stack"].append({"file": LIBRARY[0], "line": 3, "name": "rearrange"})
        ((cause,),) = (recompile.causes for recompile in self.again(entry).session().recompiles)
        assert cause.line == 9

    def test_torchs_own_words_are_kept(self):
        log = self.again(unmet(self.SIZE)).artifact("recompile_reasons", "0/0: because", at="0/1")
        assert log.session().recompiles[0].reason == "0/0: because"

    def test_torchs_own_words_explain_where_our_hook_was_not(self):
        words = "0/0: L['n'] == 2                  # return x * n  # model.py:9 in forward"
        log = Log().compiled("0/0").artifact("recompile_reasons", words, at="0/1").compiled("0/1")
        assert log.session().recompiles[0].causes[0] == Cause(
            "argument_value", "n", "2", fix=log.session().recompiles[0].causes[0].fix
        )

    def test_a_recompile_that_nobody_explains(self):
        (recompile,) = Log().compiled("0/0").compiled("0/1").session().recompiles
        assert (recompile.causes, recompile.reason, recompile.expected) == ((), "", False)

    def test_a_refused_compilation_is_none(self):
        assert Log().compiled("0/0").limit_hit("0/1").session().recompiles == ()

    def test_a_compilation_after_a_failed_one_is_the_first(self):
        log = Log().frame("0/0").metrics("0/0", fail_type="Unsupported").compiled("0/1")
        assert log.session().recompiles == ()

    def test_a_compilation_without_a_graph_counts_if_it_has_bytecode(self):
        log = Log().frame("0/0").bytecode("0/0").frame("0/1").bytecode("0/1")
        assert len(log.session().recompiles) == 1

    @pytest.mark.parametrize(
        ("guard", "expected"),
        [
            (SIZE, True),
            ("L['self'].training == True", True),
            ("GLOBAL_STATE changed: grad_mode", True),
            ("L['n'] == 2", False),
            ("tensor 'L['x']' size mismatch at index 0. expected 4, actual 1", False),
        ],
    )
    def test_some_first_changes_are_expected(self, guard: str, expected: bool):
        (recompile,) = self.again(unmet(guard)).session().recompiles
        assert recompile.expected is expected

    def test_a_second_change_of_a_size_is_not_expected(self):
        log = self.again(unmet(self.SIZE)).recompile("0/2", unmet(self.SIZE)).compiled("0/2")
        assert [recompile.expected for recompile in log.session().recompiles] == [True, False]

    def test_a_mode_and_something_else_is_not_expected(self):
        (recompile,) = self.again(unmet("GLOBAL_STATE changed: grad_mode", "L['n'] == 2")).session().recompiles
        assert not recompile.expected


class TestLimit:
    def test_how_much_of_its_cache_a_function_used(self):
        session = Log().compiled("0/0").compiled("0/1").compiled("1/0", "helper", 30).session()
        assert not session.limit.hit
        assert session.limit.functions == (CacheUse("forward", 2, 8), CacheUse("helper", 1, 8))

    def test_a_refused_compilation_hits_it(self):
        log = Log().compiled("0/0").limit_hit("0/1").ctrace("counters", {"recompile_limit": 1})
        assert log.session().limit.hit
        assert log.session().limit.functions == (CacheUse("forward", 1, 1),)

    def test_parts_of_a_function_have_limits_of_their_own(self):
        log = Log().compiled("0/0").compiled("1/0", "torch_dynamo_resume_in_forward_at_12", 8)
        assert [use.function for use in log.session().limit.functions] == ["forward", "forward (from line 12)"]

    def test_functions_that_never_compiled_use_nothing(self):
        assert Log().frame("0/0").metrics("0/0", fail_type="Unsupported").session().limit.functions == ()

    def test_frames_with_like_numbers_are_kept_apart(self):
        log = Log().compiled("11/0", "forward", 8).compiled("11/1", "forward", 8).compiled("1/0", "helper", 30)
        assert log.session().limit.functions == (CacheUse("forward", 2, 8), CacheUse("helper", 1, 8))


class TestScenarios:
    def test_in_order(self):
        session = Log().scenario("base", 2, 5, 5).scenario("wide", 2).session()
        assert session.scenarios == (Scenario("base", 2, 5, 5), Scenario("wide", 2))

    def test_one_that_was_cut_short_counts_the_calls_that_began(self):
        log = Log().ctrace("call", {"scenario": "base", "index": 0}).ctrace("call", {"scenario": "base", "index": 1})
        log.scenario("base").ctrace("call", {"scenario": "wide", "index": 0})
        assert [(each.name, each.calls) for each in log.session().scenarios] == [("base", 2), ("wide", 1)]


class TestCoverage:
    def test_the_sum_of_all_scenarios(self):
        assert Log().scenario("a", 2, 5, 5).scenario("b", 2, 7, 4).session().coverage == Coverage(12, 9)

    def test_never_more_than_everything(self):
        assert Log().scenario("a", 2, 5, 9).scenario("b", 2, 7, 4).session().coverage == Coverage(12, 9)

    def test_without_an_eager_run_nothing_is_known(self):
        assert Log().scenario("a", 2, None, 5).session().coverage == Coverage(None, None)
        assert Log().session().coverage == Coverage(None, None)

    def test_without_a_compiled_count_only_the_whole_is_known(self):
        assert Log().scenario("a", 2, 5, None).session().coverage == Coverage(5, None)

    def test_nothing_compiled_is_a_measured_zero(self):
        assert Log().scenario("a", 2, 5, 0).session().coverage == Coverage(5, 0)


class TestKernels:
    STACK = f'  File "{MODEL}", line 9, in forward\n    x.exp()\n'
    LATER = f'  File "{MODEL}", line 12, in forward\n    x.sum()\n'

    def test_a_kernel_and_its_lines(self):
        (kernel,) = Log().kernel("0/0", "fused_0", [self.STACK], ["aten.exp"]).session().kernels
        assert (kernel.graph, kernel.stage, kernel.name, kernel.language) == ("0/0", Stage.INFERENCE, "fused_0", "cpp")
        assert (kernel.ops, kernel.lines, kernel.calls) == (("aten.exp",), (f"{MODEL}:9",), 1)

    def test_calls_of_one_kernel_are_joined(self):
        log = Log().kernel("0/0", "mm", [self.STACK], ["aten.mm"]).kernel("0/0", "mm", [self.LATER], ["aten.mm"])
        (kernel,) = log.session().kernels
        assert (kernel.ops, kernel.lines) == (("aten.mm",), (f"{MODEL}:9", f"{MODEL}:12"))
        assert kernel.calls == 2

    def test_one_name_in_two_graphs_is_two_kernels(self):
        log = Log().kernel("0/0", "mm").kernel("1/0", "mm").kernel("0/0", "mm", stage="backward")
        assert [(each.graph, each.stage) for each in log.session().kernels] == [
            ("0/0", Stage.INFERENCE),
            ("1/0", Stage.INFERENCE),
            ("0/0", Stage.BACKWARD),
        ]


class TestFusions:
    ROUNDS = (
        {"before": 5, "after": 3, "fused": [["op1", "op2"], ["op3", "op4"]]},
        {"before": 3, "after": 3, "fused": []},
    )

    def test_rounds(self):
        data = {"stage": "forward", "before": 5, "after": 3, "rounds": self.ROUNDS, "refused": 2}
        (fusion,) = Log().ctrace("fusion", data, at="0/0").session().fusions
        assert (fusion.graph, fusion.stage, fusion.before, fusion.after, fusion.refused) == (
            "0/0",
            Stage.FORWARD,
            5,
            3,
            2,
        )
        assert fusion.rounds == (FusionRound(5, 3, (("op1", "op2"), ("op3", "op4"))), FusionRound(3, 3, ()))


class TestTime:
    def test_phases_do_not_contain_each_other(self):
        log = Log().metrics(
            "0/0", entire_frame_compile_time_s=1.0, backend_compile_time_s=0.7, inductor_compile_time_s=0.4
        )
        time = log.session(seconds=3.5).time
        assert time.total == 3.5
        assert time.phases["dynamo"] == pytest.approx(0.3)
        assert sum(time.phases.values()) == pytest.approx(1.0)

    def test_a_backward_part_adds_its_time(self):
        log = Log().metrics(
            "0/0", entire_frame_compile_time_s=1.0, backend_compile_time_s=0.7, inductor_compile_time_s=0.4
        )
        log.metrics("0/0", backward=True, backward_cumulative_compile_time_us=500_000, inductor_compile_time_s=0.2)
        phases = log.session().time.phases
        assert phases == pytest.approx({"dynamo": 0.3, "aot": 0.6, "inductor": 0.6})

    def test_code_that_a_fork_generated_is_told_apart(self):
        log = Log().metrics("0/0").ctrace("codegen_started", {"stage": "forward"}, at="0/0")
        log.ctrace("codegen", {"stage": "forward", "seconds": 0.25}, at="0/0")
        log.ctrace("codegen", {"stage": "backward", "seconds": 0.5}, at="0/0")
        assert log.session().time.phases["codegen"] == 0.25

    def test_what_was_not_measured_is_not_there(self):
        time = whole().started().session().time
        assert time.total is None
        assert all(value >= 0 for value in time.phases.values())
        assert Log().session().time.phases == {}


class TestProblems:
    def test_a_whole_log_has_none(self):
        assert whole().session().problems == ()
        assert whole().session().unknown == {}

    def test_a_broken_line_is_one_and_says_where(self):
        (problem,) = Log().started().line("what the program printed").ended().session().problems
        assert problem.line == 5
        assert "not a trace record" in problem.what

    def test_an_entry_that_is_not_as_expected_is_one_and_says_where(self):
        (problem,) = Log().started().ctrace("scenario", {"name": "base"}).ended().session().problems
        assert problem.line == 5
        assert "ctrace_scenario" in problem.what

    def test_a_problem_of_a_hook_is_one(self):
        (problem,) = Log().ctrace("problem", {"what": "fusion could not be recorded"}).session().problems
        assert (problem.what, problem.line) == ("fusion could not be recorded", None)

    def test_code_that_could_not_be_generated_is_one(self):
        log = Log().ctrace("codegen_started", {"stage": "forward"}, at="0/0")
        log.ctrace("codegen_failed", {"stage": "forward", "error": "NotImplementedError: sparse"}, at="0/0")
        (problem,) = log.session().problems
        assert "NotImplementedError: sparse" in problem.what

    def test_code_that_was_still_being_generated_is_one(self):
        log = Log().ctrace("codegen_started", {"stage": "forward"}, at="0/0")
        log.ctrace("codegen_started", {"stage": "backward"}, at="0/0")
        log.ctrace("codegen", {"stage": "forward", "seconds": 0.1}, at="0/0")
        (problem,) = log.session().problems
        assert "backward" in problem.what

    def test_a_log_without_an_end_is_one(self):
        (problem,) = Log().started().session().problems
        assert "ends before the run did" in problem.what

    def test_a_log_without_an_end_is_none_where_a_failure_explains_it(self):
        assert Log().started().session(Failure(FailurePhase.CRASH, "SIGKILL", "killed")).problems == ()

    def test_a_log_of_torch_alone_needs_no_end(self):
        assert Log().compiled("0/0").session().problems == ()

    def test_unknown_entries_are_counted(self):
        log = Log().record("hologram", {}).record("hologram", {}).artifact("crystal", "")
        assert log.session().unknown == {"hologram": 2, "artifact:crystal": 1}


class TestFailure:
    def test_the_log_knows_best(self):
        data = {"phase": "load", "type": "ImportError", "message": "no nets", "file": MODEL, "line": 1}
        told = Failure(FailurePhase.CRASH, "Exit", "exit code 1")
        assert Log().ctrace("failure", data).session(told).failure == Failure(
            FailurePhase.LOAD, "ImportError", "no nets", MODEL, 1
        )

    def test_a_crash_is_known_to_the_caller_only(self):
        told = Failure(FailurePhase.CRASH, "SIGSEGV", "the program crashed")
        assert Log().session(told).failure == told


class TestDamage:
    """Whatever a log holds, there is a session; what could not be read is a problem."""

    def test_a_log_cut_anywhere_gives_a_session_and_a_problem(self):
        log = Log().started().frame("0/0").graph("0/0").breaks("0/0").scenario("base", 2, 5, 5).ended()
        data = log.text.encode()
        lines = [number for number, line in enumerate(data.splitlines(), 1) if not line.startswith(b"\t")]
        first = data.index(b"\n\t{") + 1
        for end in range(len(data) - 1):
            problems = build(parsed(data[:end])).problems
            assert problems or end <= data.index(b"\nV", first), f"cut at byte {end}"
            assert all(problem.line in [None, *lines] for problem in problems), f"cut at byte {end}"

    @fuzzing
    @given(st.lists(st.integers(0, 10**6), max_size=4), st.binary(max_size=4))
    def test_bytes_changed_anywhere(self, places: list[int], replacement: bytes):
        data = bytearray(whole().breaks("0/0").text.encode())
        for place in places:
            at = place % len(data)
            data[at : at + len(replacement)] = replacement
        build(parsed(bytes(data)))

    def test_every_kind_with_data_has_a_specimen(self):
        assert set(_DECODERS) - set(SPECIMENS) == {"artifact:dynamo_graph_break_reason"}

    @pytest.mark.parametrize("kind", SPECIMENS)
    def test_any_value_in_any_place(self, kind: str):
        for damaged in replaced(SPECIMENS[kind]):
            log = specimen_log(kind, damaged)
            try:
                session = log.session()
            except RunError as error:
                assert "newer" in error.what
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error}; with {damaged}")
            else:
                assert session.verdict in Verdict

    @pytest.mark.parametrize("kind", SPECIMENS)
    def test_any_field_missing(self, kind: str):
        for name in SPECIMENS[kind] if isinstance(SPECIMENS[kind], dict) else ():
            rest = {key: value for key, value in SPECIMENS[kind].items() if key != name}
            assert specimen_log(kind, rest).session()

    @fuzzing
    @given(st.sampled_from(list(SPECIMENS)), any_json)
    def test_anything_else_in_a_record_of_a_known_kind(self, kind: str, data: Any):
        try:
            specimen_log(kind, data).session()
        except RunError as error:
            assert "newer" in error.what

    @pytest.mark.parametrize("name", NO_JSON)
    def test_payloads_that_hold_no_object(self, name: str):
        for kind, specimen in SPECIMENS.items():
            session = Log().artifact(kind.removeprefix("artifact:"), NO_JSON[name], at="0/0").session()
            verdict, whats = session.verdict, [problem.what[:200] for problem in session.problems]
            assert verdict in Verdict
            if kind.startswith("artifact:") and isinstance(specimen, dict) and specimen:
                assert len(whats) == 1
                assert whats[0].startswith(f"a {kind} entry is not as expected")
