"""Evidence that a log or a run stops before its end."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.outcome import NO_END_MARK, CutKind
from ctrace.inspector.facts.scenario_facts import Outcome
from ctrace.inspector.facts.session import Failure, FailurePhase, Session, Target, Verdict
from ctrace.inspector.features.check.trust import untrusted
from ctrace.inspector.runs.load import load, load_log
from ctrace.inspector.runs.store import SavedRun, Store
from ctrace.inspector.session.build import build
from tests.support.helpers import Log, parsed, recorded, whole
from tests.support.places import DATA

CRASH = Failure(FailurePhase.CRASH, "SIGSEGV", "the program crashed with SIGSEGV")


def kinds(session: Session) -> list[CutKind]:
    return [each.kind for each in session.cut_off]


def span(log: Log, name: str, phase: str, at: str | None = None) -> Log:
    return log.record("chromium_event", {}, at=at, payload=json.dumps({"name": name, "ph": phase, "args": None}))


class TestKinds:
    def test_a_whole_log_shows_none(self):
        session = whole().session()
        assert (session.cut_off, session.verdict) == ((), Verdict.COMPILED)

    def test_a_compilation_without_its_end(self):
        session = Log().compiled("0/0").frame("1/0", "helper", 31).session()
        (only,) = session.cut_off
        assert (only.kind, only.compilation) == (CutKind.COMPILATION, "1/0")
        assert only.what.startswith("compilation 1/0 of helper (model.py:31) started")
        assert session.verdict is Verdict.INCOMPLETE

    def test_a_phase_that_was_begun_and_not_ended(self):
        log = span(Log().compiled("0/0"), "entire_backward_compile", "B", "0/0")
        assert [each.what for each in log.session().cut_off] == [
            "entire backward compile of 0/0 started, and the log ends before it finished"
        ]
        assert span(log, "entire_backward_compile", "E", "0/0").session().cut_off == ()

    def test_a_phase_of_a_compilation_that_is_open_says_no_more(self):
        assert kinds(span(Log().frame("0/0"), "dynamo", "B", "0/0").session()) == [CutKind.COMPILATION]

    def test_an_end_closes_all_within_it(self):
        log = span(span(span(Log().compiled("0/0"), "dynamo", "B"), "inner", "B"), "dynamo", "E")
        assert log.session().cut_off == ()

    def test_phases_that_were_shortened_are_passed_over(self):
        assert Log().compiled("0/0").record("chromium_event", {}, payload="{").session().cut_off == ()

    def test_a_log_without_a_record(self):
        assert kinds(Log().session()) == [CutKind.EMPTY]
        assert Log().session(CRASH).cut_off == ()

    def test_a_capture_that_did_not_end(self):
        assert kinds(Log().started().compiled("0/0").session()) == [CutKind.RUN]

    def test_a_capture_that_crashed_says_what_was_being_compiled(self):
        session = Log().started().frame("0/0").session(CRASH)
        assert (kinds(session), session.verdict) == ([CutKind.COMPILATION], Verdict.FAILED)
        assert session.problems[0].is_doubt

    def test_a_line_that_stops_in_the_middle(self):
        text = Log().compiled("0/0").text
        assert kinds(build(parsed(text[:-1]))) == [CutKind.LINE]
        assert build(parsed(text)).cut_off == ()

    def test_a_payload_that_is_missing(self):
        lines = Log().compiled("0/0").breaks("0/0").text.splitlines(keepends=True)
        at = next(at for at, line in enumerate(lines) if "graph_break" in line)
        assert kinds(build(parsed("".join(lines[: at + 1])))) == [CutKind.RECORD]

    def test_records_that_another_source_counts(self):
        log = Log().started().compiled("0/0").counters(stats={"unique_graphs": 2}).ended()
        assert (kinds(log.session()), log.session().verdict) == ([CutKind.MISSING], Verdict.INCOMPLETE)


class TestVerdict:
    @pytest.mark.parametrize(
        ("phase", "kind", "file", "verdict"),
        [
            ("timeout", "Timeout", None, "incomplete"),
            ("interrupt", "KeyboardInterrupt", "model.py", "incomplete"),
            ("crash", "SIGKILL", None, "incomplete"),
            ("crash", "SIGTERM", None, "incomplete"),
            ("crash", "SIGKILL", "model.py", "failed"),
            ("crash", "SIGSEGV", None, "failed"),
            ("crash", "SIGABRT", None, "failed"),
            ("crash", "Exit", None, "failed"),
            ("run", "ValueError", "model.py", "failed"),
            ("load", "SystemExit", "model.py", "failed"),
        ],
    )
    def test_what_came_from_outside_is_no_failure_of_the_program(self, phase, kind, file, verdict):
        failure = Failure(FailurePhase(phase), kind, "it ended", file)
        assert str(whole().session(failure).verdict) == verdict

    def test_a_failure_outweighs_a_cut(self):
        session = Log().started().frame("0/0").session(replace(CRASH, type="SIGABRT"))
        assert (session.verdict, kinds(session)) == (Verdict.FAILED, [CutKind.COMPILATION])


class TestPrograms:
    LOG = Log().started().compiled("0/0").ctrace("exited", {"how": "os._exit(0)", "file": "a.py", "line": 3})

    def test_one_that_ended_itself_is_whole_as_far_as_it_got(self):
        session = self.LOG.session()
        assert (session.verdict, session.exited, session.cut_off) == (Verdict.COMPILED, "os._exit(0)", ())

    def test_one_that_ended_itself_while_it_compiled_is_not(self):
        log = Log().started().frame("0/0").ctrace("exited", {"how": "os._exit(0)"})
        assert log.session().verdict is Verdict.INCOMPLETE

    def test_one_that_went_on_after_all_did_not_end_itself(self):
        log = Log().started().compiled("0/0").ctrace("exited", {"how": "os.kill(1, 15)"}).ended()
        assert log.session().exited == ""


PLAN = {"scenarios": [{"name": name, "kind": "given"} for name in ("base", "wide", "long")]}


class TestScenarios:
    def test_every_promised_one_ran_or_is_named(self):
        log = Log().started().ctrace("plan", PLAN).scenario("base")
        log.ctrace("call", {"scenario": "wide", "index": 0})
        session = log.session(CRASH)
        assert [(each.name, each.calls, each.outcome) for each in session.scenarios] == [
            ("base", 2, Outcome.DONE),
            ("wide", 1, Outcome.UNFINISHED),
            ("long", 0, Outcome.NOT_RUN),
        ]
        found = list(untrusted(session))
        assert any("not run: scenario long" in each.what for each in found)

    def test_one_that_two_processes_called_counts_once(self):
        log = Log().started().compiled("0/0").scenario("base").ops(5, 0).scenario("base").ops(5, 0).ended()
        session = log.session()
        assert (len(session.scenarios), session.coverage.ops) == (1, 5)


class TestFiles:
    def run(self, tmp_path: Path, text: str, **changes: object) -> SavedRun:
        run = Store(tmp_path).create(Target("model.py"))
        run.log.write_text(text)
        return replace(run, **changes)

    def test_a_run_whose_process_is_gone_was_cut_off(self, tmp_path: Path) -> None:
        text = Log().started().compiled("0/0").text
        session = load(self.run(tmp_path, text, pid=2**22 + 1))
        assert session.verdict is Verdict.INCOMPLETE
        assert "is incomplete" in session.cut_off[0].what

    def test_a_run_that_is_being_made_says_so(self, tmp_path: Path) -> None:
        session = load(self.run(tmp_path, Log().started().compiled("0/0").text))
        assert "still in progress" in session.cut_off[0].what

    def test_a_run_that_is_whole_but_for_its_last_words_is_whole(self, tmp_path: Path) -> None:
        assert load(self.run(tmp_path, whole().text, pid=2**22 + 1)).verdict is Verdict.COMPILED

    def test_a_program_that_ended_itself_from_c(self, tmp_path: Path) -> None:
        session = load(self.run(tmp_path, Log().started().compiled("0/0").text, status="done"))
        assert (session.verdict, session.exited) == (Verdict.COMPILED, "exit code 0, without Python's own cleanup")

    def test_a_log_of_torch_alone_has_no_end_mark_and_holds_in_a_check(self) -> None:
        session = load_log(DATA / "print_break.torch.log")
        assert (session.is_endless, session.cut_off) == (True, ())
        assert session.problems[-1].what == NO_END_MARK
        assert list(untrusted(session)) == []

    def test_our_own_log_has_an_end_mark(self) -> None:
        assert not load_log(DATA / "print_break.log").is_endless
        assert recorded("print_break").cut_off == ()

    def test_an_empty_log(self, tmp_path: Path) -> None:
        (tmp_path / "a.log").touch()
        session = load_log(tmp_path / "a.log")
        assert (session.verdict, session.is_endless) == (Verdict.INCOMPLETE, False)
        assert any("the log is empty" in each.what for each in untrusted(session))
