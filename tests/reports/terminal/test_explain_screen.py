"""`ctrace explain` on screen: golden screens and invariants.

The line that compares compiled with eager.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

import ctrace
from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.facts.findings import Cause, CauseKind, Frame, Owner, Recompile, UserLine
from ctrace.inspector.facts.session import Coverage, Environment, Problem, Scenario, Session
from ctrace.inspector.facts.trial import Trial, Tried
from ctrace.inspector.features.time.events import Failed
from ctrace.inspector.features.time.measuring import speed_of
from ctrace.inspector.runs.load import load_log
from ctrace.reports.terminal.explain_screen import _bounded, speed
from tests.support import sessions, timings
from tests.support.compared import NOTHING_COMPARED, RIGHT, WRONG
from tests.support.explained import screen_of
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.places import DATA
from tests.support.sampling import sampled
from tests.support.timings import measured, setup, timed


def _screen(session: Session, width: int, *, colors: bool = False, verbose: bool = False) -> str:
    return drawn(screen_of(session, width, verbose=verbose), width, colors=colors)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sessions.ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"{name}-{width}.txt", _screen(sessions.ALL[name], width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["healthy", "partial", "hostile"])
def test_verbose_screen(name: str, width: int) -> None:
    assert_golden(f"{name}-verbose-{width}.txt", _screen(sessions.ALL[name], width, verbose=True))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sessions.ALL)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(sessions.ALL[name], width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


def test_a_healthy_model_fits_one_screen() -> None:
    assert len(_screen(sessions.HEALTHY, 80).splitlines()) <= 24


def test_verdict_comes_first() -> None:
    assert _screen(sessions.PARTIAL, 80).startswith("PARTIAL")


def test_colors_only_on_request() -> None:
    assert "\x1b[" not in _screen(sessions.PARTIAL, 80)
    assert "\x1b[" in _screen(sessions.PARTIAL, 80, colors=True)


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(sessions.HOSTILE, 80)


def test_unmeasured_values_are_not_zero() -> None:
    screen = _screen(sessions.NOTHING, 80)
    assert "not measured" in screen
    assert " 0 " not in screen


def test_breaks_with_one_cause_are_counted_and_folded() -> None:
    screen = _screen(sessions.MANY, 80)
    assert screen.count("A graph break: `x.item()`") == 1
    assert "8 graph breaks · 36 ops in eager" in screen


def _crowded(number: int, words: str = "") -> Session:
    """Make a session with some number of causes and everything else that the screen can show."""
    reason = words or "Dynamo cannot trace this call, " * 20
    at = "/home/user/a/very/deep/folder/with/many/more/folders/in/it/until/it/is/long/enough"
    breaks = tuple(
        sessions.bare_break(
            file=f"{at}/model_{index}.py", line=index, source=f"call_{index}(x)", expression=f"call_{index}(x)",
            reason=reason, fix=f"Change call {index}. {reason}", title="a call that Dynamo cannot trace",
        )
        for index in range(number)
    )  # fmt: skip
    partial = sessions.ALL["dangerous"]
    problems = tuple(Problem(f"{index} {reason}") for index in range(9))
    return replace(partial, breaks=breaks, problems=problems)


@pytest.mark.parametrize("width", WIDTHS)
def test_any_model_fits_60_lines(width: int) -> None:
    screen = _screen(_crowded(12), width)
    assert len(screen.splitlines()) <= 60
    assert "and 10 more causes: see ctrace explain --json" in screen
    assert "more suggestions: see ctrace explain --verbose" in screen
    assert "and 7 more problems: see --json" in screen


@pytest.mark.parametrize("log", sampled(sorted(DATA.glob("*.log"))), ids=lambda log: log.stem)
def test_recorded_runs_fit(log: Path) -> None:
    session = load_log(log)
    lines = len(_screen(session, 80).splitlines())
    assert lines <= (40 if len(diagnose(session).causes) < 2 else 60)


def test_paths_are_shortened_from_the_left() -> None:
    screen = _screen(_crowded(1), 80)
    assert "it/until/it/is/long/enough/model_0.py:0" in screen


def test_a_failure_is_not_repeated_as_a_cause() -> None:
    screen = _screen(sessions.ALL["failed"], 80)
    assert screen.count("no such luck") == 1


def test_titles_keep_the_case_of_identifiers() -> None:
    cause = Cause(CauseKind.ATTRIBUTE_VALUE, "self.n", "1", "2")
    session = Session(recompiles=(Recompile("0/1", "forward", sessions.MODEL, 8, expected=False, causes=(cause,)),))
    assert " self.n changed: 1 → 2" in _screen(session, 80)


def test_torchs_own_reason_is_shown_beside_the_nearest_entry() -> None:
    cause = Cause(CauseKind.SIZE, "x.size(0)", "8", "4")
    reason = "0/1: tensor 'x' size mismatch at index 2. expected 16, actual 17"
    made = Recompile(
        "0/2", "forward", sessions.MODEL, 8, expected=False, causes=(cause,), reason=reason, nearest="0/0"
    )  # fmt: skip
    screen = " ".join(_screen(Session(recompiles=(made,)), 80).split())
    assert "torch reports: tensor 'x' size mismatch at index 2. expected 16, actual 17" in screen
    assert "torch reports" not in _screen(Session(recompiles=(replace(made, nearest="0/1", reason=""),)), 80)


def test_an_avoidable_expected_recompilation_is_not_called_unavoidable() -> None:
    batch = Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True)
    made = Recompile("0/1", "forward", sessions.MODEL, 8, True, (batch,), why_expected="Once.", nearest="0/0")
    assert "nothing to change" not in _screen(Session(recompiles=(made,)), 80)
    mode = replace(made, causes=(Cause(CauseKind.TRAINING_MODE, "self.training", "True", "False"),))
    assert "nothing to change" in _screen(Session(recompiles=(mode,)), 80)


def test_a_fast_run_names_the_skipped_stages() -> None:
    session = Session(environment=Environment(fast=True))
    shown = " ".join(_screen(session, 80).split())
    assert "Fast run: graphs were not lowered, so kernels, fusion, attention, backward graphs and sizes" in shown


def test_internal_terms_are_not_used() -> None:
    for name in sessions.ALL:
        screen = _screen(sessions.ALL[name], 140) + _screen(sessions.ALL[name], 140, verbose=True)
        for word in ("zero_one", "GB0", "moved again", "emitted, not built", "+1 graph", " %)"):
            assert word not in screen


def test_coverage_is_shown_per_scenario_if_it_differs() -> None:
    whole = Coverage(20, 15)
    alike = Scenario("a", 2, Coverage(10, 8)), Scenario("b", 2, Coverage(10, 8))
    apart = Scenario("a", 2, Coverage(10, 10)), Scenario("b", 2, Coverage(10, 5))
    assert "; a" not in _screen(Session(coverage=whole, scenarios=alike), 80)
    screen = " ".join(_screen(Session(coverage=whole, scenarios=apart), 80).split())
    assert "15 of 20 (75%); a 10 of 10 (100%), b 5 of 10 (50%)" in screen


def test_torchs_own_words_are_not_cut_off() -> None:
    words = "argument 'is_causal' must be bool, not SymBool"
    at = replace(sessions.PARTIAL.breaks[0], reason=f"{'A long reason. ' * 40}Torch says: TypeError: {words}")
    shown = drawn(screen_of(replace(sessions.PARTIAL, breaks=(at, *sessions.PARTIAL.breaks[1:])), 80), 80)
    assert words in " ".join(shown.split())


def test_each_line_that_leads_to_a_shared_break_is_named() -> None:
    at = sessions.PARTIAL.breaks[0]
    lines = tuple(
        UserLine(Frame(at.file, line, at.function), Owner.LIBRARY, 1, at.compilations) for line in (at.line, 95, 96)
    )
    shared = replace(at, reached_from=lines)
    screen = _screen(replace(sessions.PARTIAL, breaks=(shared, *sessions.PARTIAL.breaks[1:])), 140)
    assert f"{at.function}, also from model.py:95, model.py:96" in screen


def test_speed_with_the_advice_is_said_to_be_not_measured() -> None:
    """Only where the run itself was timed, with built kernels, and advice was tried."""
    timed = replace(sessions.PARTIAL, speed=Speed("faster", "base", "forward", 2e-3, 1e-3, 2.0, 1.9, 2.1, 9))
    assert "with the advice" not in _screen(timed, 140)
    tried = replace(timed, trials=(Tried(Trial(grad="off"), None, 1.0),))
    assert "over 9 rounds); with the advice: not measured, trials build no kernels" in " ".join(
        _screen(tried, 140).split()
    )
    assert "with the advice" not in _screen(replace(tried, speed=None), 140)


def test_commands_name_a_run_that_is_not_the_last_one() -> None:
    shown = " ".join(drawn(screen_of(sessions.HEALTHY, 140, run="old.log"), 140).split())
    assert "see ctrace graphs, guards, kernels, fusion; or explain -v, each with old.log" in shown


def test_a_run_that_is_not_saved_names_no_command() -> None:
    shown = drawn(screen_of(replace(sessions.HEALTHY, guards={}), 140, run=None), 140)
    assert "see session.graphs, " in shown
    assert "session.guards" not in shown
    assert not any(word in shown for word in ("ctrace graphs", "explain -v", "--build"))


@pytest.mark.parametrize(
    "session", [sessions.PARTIAL, sessions.HEALTHY, sessions.HOSTILE], ids=("partial", "ok", "evil")
)
def test_the_text_is_the_screen_of_a_run_that_is_not_saved(session: Session) -> None:
    text = ctrace.text(session)
    assert f"{text}\n".startswith(drawn(screen_of(session, 100, run=None), 100))
    assert ("see ctrace " in text) == ("put the model in a file" in text)
    assert len(ctrace.text(session, verbose=True)) > len(text)


@pytest.mark.parametrize("name", sessions.ALL)
def test_a_session_prints_as_one_short_line(name: str) -> None:
    session = sessions.ALL[name]
    shown = repr(session)
    assert shown.startswith(f"<Session {session.verdict}")
    assert "\n" not in shown
    assert len(shown) < 250


def test_a_failing_assert_shows_no_frames() -> None:
    assert "Frame(" not in repr(sessions.PARTIAL.breaks)
    assert all(f":{each.line} in {each.function}: " in repr(each) for each in sessions.PARTIAL.breaks)


def test_a_wrong_line_is_on_the_screen_and_its_remedy_is_the_advice() -> None:
    shown = " ".join(_screen(WRONG, 80).split())
    assert (
        "model.py:14 `h = torch.relu(x)` is wrong: off by 1 where eager is off by 0." in shown.partition("Numbers")[2]
    )
    assert "torch._inductor.lowering.make_fallback(...) makes the error go away" in shown
    assert "model.py:14 · 1 wrong result" in shown
    assert "aot_eager" not in shown
    failed = replace(WRONG, accuracy=NOTHING_COMPARED)
    words = " ".join(_screen(failed, 80).split())
    assert "Numbers Not compared: no C++ compiler works, and kernels run here." in words
    right = replace(sessions.HEALTHY, accuracy=RIGHT)
    assert "Numbers Nothing is beyond rounding in 5 stored results of 2 kernels" in " ".join(_screen(right, 80).split())
    assert "Numbers" not in _screen(sessions.HEALTHY, 80)


def test_faster() -> None:
    found = speed_of(measured(setup(), *timed(1.15e-3, 0.82e-3), timings.MADE))
    assert found.verdict == "faster"
    assert speed(found) == "compiled is 1.40x faster than eager (820 µs against 1.15 ms; 1.37x to 1.43x over 15 rounds)"


def test_slower_and_the_same() -> None:
    slower = speed(speed_of(measured(setup(), *timed(1e-3, 2e-3))))
    assert slower.startswith("compiled is 2.00x slower than eager (2.00 ms against 1.00 ms; ")
    same = speed(speed_of(measured(setup(), *timed(1e-3, 1e-3))))
    assert same.startswith("no measurable difference to eager (1.00 ms against 1.00 ms; ")


def test_a_step_says_so() -> None:
    assert " against 4.00 ms a step; " in speed(speed_of(measured(setup(), *timed(4e-3, 2e-3, part="step"))))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            Speed(why="a program calls torch.compile itself"),
            "not measured, because a program calls torch.compile itself",
        ),
        (Speed(), "not measured, because no round was measured"),
    ],
)
def test_not_measured(found: Speed, text: str) -> None:
    assert speed(found) == text


def test_too_much_noise_is_no_speed_up() -> None:
    found = replace(Speed("faster", "base", "forward", 1e-3, 1e-3, 1.2, 0.7, 2.0, 9), verdict="undecided")
    assert speed(found).startswith("undecided, the times vary too much (1.00 ms against 1.00 ms; 0.70x to 2.00x")


def test_why_nothing_was_measured() -> None:
    failed = timings.measured(setup(), Failed("eager", "ValueError", "no such luck\nmore", "base"))
    assert speed_of(failed).why == "eager failed: ValueError: no such luck"
    assert speed_of(measured(setup(), stopped="timed out after 60 s")).why == (
        "the measurement was stopped: timed out after 60 s"
    )


def test_a_sentence_of_somebody_elses_message_ends_none_of_ours() -> None:
    text = "Keep it out: `f(x. y)`. It raises RuntimeError (No match. Perhaps one is unused? a. b) when compiled. The rest."
    assert _bounded(text, 60) == "Keep it out: `f(x. y)`."
    assert _bounded(text, 107) == text.removesuffix(" The rest.")
