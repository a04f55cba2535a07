"""Build a session from the entries of a log."""

import json

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.session import Bytecode, Coverage, Failure, FailurePhase, Scenario, Target, Verdict
from ctrace.inspector.session.build import build
from tests.support.helpers import MODEL, PROJECT, SITE, Log, whole


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

    def test_what_switches_torch_compile_off(self):
        assert Log().counters(switched_off="TORCHDYNAMO_DISABLE=1").session().environment.switched_off == (
            "TORCHDYNAMO_DISABLE=1"
        )
        assert Log().counters().session().environment.switched_off is None

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
        log = Log().compiled("0/0").gave_up("1/0", "helper", 30)
        assert log.session().verdict is Verdict.PARTIAL

    def test_a_limit_is_partial(self):
        assert Log().compiled("0/0").limit_hit("0/1").session().verdict is Verdict.PARTIAL

    def test_no_graph_is_not_compiled(self):
        assert Log().frame("0/0").breaks("0/0").metrics("0/0").session().verdict is Verdict.NOT_COMPILED
        assert Log().started().ended().session().verdict is Verdict.NOT_COMPILED
        assert Log().session().verdict is Verdict.INCOMPLETE  # not a record

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
        assert Log().gave_up("0/0").session().graphs == ()

    def test_a_graph_that_its_backend_refused_is_none(self):
        log = Log().frame("0/0").graph("0/0").metrics("0/0", fail_type="BackendCompilerFailed")
        assert log.session().graphs == ()


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
        log = Log().gave_up("0/0", fail_reason="no such thing")
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


class TestReset:
    """After torch._dynamo.reset(), compile ids start again at 0/0."""

    def test_what_was_compiled_after_it_is_kept_apart(self):
        session = Log().compiled("0/0", ops=2).compiled("0/0", "helper", 31, ops=5).session()
        assert [(graph.id, graph.function, graph.ops) for graph in session.graphs] == [
            ("0/0", "forward", 2),
            ("2.0/0", "helper", 5),
        ]
        assert session.recompiles == ()

    def test_what_began_anew_for_a_break_is_the_same(self):
        session = Log().frame("0/0").frame("0/0", attempt=1).graph("0/0").compiled("0/1").session()
        assert [graph.id for graph in session.graphs] == ["0/0", "0/1"]

    def test_breaks_after_it_are_of_the_compilation_after_it(self):
        log = Log().compiled("0/0").breaks("0/0").gave_up("0/0", "helper", 31).breaks("0/0", gb=("0124",))
        session = log.session()
        assert [each.compilations for each in session.breaks] == [("0/0",), ("2.0/0",)]
        assert [skip.break_index for skip in session.skips] == [1]

    def test_each_one_counts(self):
        log = Log()
        for _ in range(3):
            log.compiled("0/0").compiled("1/0", "helper", 31)
        assert [graph.id for graph in log.session().graphs] == ["0/0", "1/0", "2.0/0", "2.1/0", "3.0/0", "3.1/0"]


class TestScenarios:
    def test_in_order(self):
        session = Log().scenario("base").ops(5, 1).scenario("wide", 3).session()
        assert session.scenarios == (Scenario("base", 2, Coverage(5, 4)), Scenario("wide", 3))

    def test_one_that_was_cut_short_counts_the_calls_that_began(self):
        log = Log().ctrace("call", {"scenario": "base", "index": 0}).ctrace("call", {"scenario": "base", "index": 1})
        log.scenario("base").ctrace("call", {"scenario": "wide", "index": 0})
        assert [(each.name, each.calls) for each in log.session().scenarios] == [("base", 2), ("wide", 1)]


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

    def test_a_newer_torch_than_this_ctrace_knows_is_one(self):
        (problem,) = Log().ctrace("torch", {"torch": "9.1.0"}).session().problems
        assert "torch 9.1.0 is newer" in problem.what

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
    def without_code(self, error: str = "NotImplementedError: sparse: no") -> Log:
        """Return a log in which a fork failed to generate the code of a graph."""
        log = Log().compiled("0/0").ctrace("codegen_started", {"stage": "forward"}, at="0/0")
        return log.ctrace("codegen_failed", {"stage": "forward", "error": error}, at="0/0")

    def test_the_log_knows_best(self):
        data = {"phase": "load", "type": "ImportError", "message": "no nets", "file": MODEL, "line": 1}
        found = Failure(FailurePhase.CRASH, "Exit", "exit code 1")
        assert Log().ctrace("failure", data).session(found).failure == Failure(
            FailurePhase.LOAD, "ImportError", "no nets", MODEL, 1
        )

    def test_a_crash_is_known_to_the_caller_only(self):
        found = Failure(FailurePhase.CRASH, "SIGSEGV", "the program crashed")
        assert Log().session(found).failure == found

    def test_code_that_could_not_be_generated_is_one(self):
        session = self.without_code().session()
        assert session.failure == Failure(
            FailurePhase.RUN, "NotImplementedError", "code of graph 0/0 (forward) cannot be generated: sparse: no"
        )
        assert (session.verdict, session.problems) == (Verdict.FAILED, ())

    def test_code_that_could_not_be_generated_for_no_reason_is_one(self):
        failure = self.without_code("KilledWorker").session().failure
        assert failure is not None
        assert (failure.type, failure.message.partition(": ")[2]) == ("KilledWorker", "KilledWorker")

    def test_the_first_code_that_could_not_be_generated_is_told(self):
        log = self.without_code("ValueError: first")
        log.ctrace("codegen_failed", {"stage": "backward", "error": "KeyError: second"}, at="0/0")
        failure = log.session().failure
        assert failure is not None
        assert failure.type == "ValueError"

    def test_what_the_program_raised_goes_before_code_that_could_not_be_generated(self):
        data = {"phase": "run", "type": "KeyError", "message": "'a'"}
        assert self.without_code().ctrace("failure", data).session().failure == Failure(
            FailurePhase.RUN, "KeyError", "'a'"
        )
        found = Failure(FailurePhase.TIMEOUT, "Timeout", "took too long")
        assert self.without_code().session(found).failure == found


class TestListings:
    def test_the_text_of_each_file(self):
        session = Log().listing("x = 1\n").listing("y = 2\n", f"{PROJECT}/other.py").session()
        assert session.listings == {MODEL: "x = 1\n", f"{PROJECT}/other.py": "y = 2\n"}

    def test_the_last_text_of_a_file_counts(self):
        assert Log().listing("x = 1\n").listing("x = 2\n").session().listings == {MODEL: "x = 2\n"}


class TestTime:
    """Phases do not overlap, and their sum is at most the total."""

    def compiled(self) -> Log:
        log = Log().frame("0/0").graph("0/0")
        log.metrics("0/0", entire_frame_compile_time_s=8.0, backend_compile_time_s=7.0, inductor_compile_time_s=2.0)
        return log.metrics(
            "0/0", backward=True, backward_cumulative_compile_time_us=5_000_000, inductor_compile_time_s=4.0
        )

    def phases(self, seconds: float | None) -> dict[str, float]:
        return dict(self.compiled().session(seconds=seconds).time.phases)

    def test_a_backward_that_runs_later_is_added(self):
        assert self.phases(20.0) == {"dynamo": 1.0, "aot": 6.0, "inductor": 6.0}
        assert self.phases(None) == self.phases(20.0)

    def test_a_backward_within_its_forward_counts_once(self):
        assert self.phases(9.0) == {"dynamo": 1.0, "aot": 1.0, "inductor": 6.0}
