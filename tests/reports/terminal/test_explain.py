"""`ctrace explain` on screen: golden screens, and what it must never do."""

import pytest

from ctrace.inspector.model import Coverage, Scenario, Session
from ctrace.reports.terminal.explain import explain_screen
from tests import sessions
from tests.golden import WIDTHS, assert_golden, drawn


def _screen(session: Session, width: int, *, colours: bool = False) -> str:
    return drawn(explain_screen(session, width), width, colours=colours)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sessions.ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"{name}-{width}.txt", _screen(sessions.ALL[name], width))


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


def test_colours_only_where_asked_for() -> None:
    assert "\x1b[" not in _screen(sessions.PARTIAL, 80)
    assert "\x1b[" in _screen(sessions.PARTIAL, 80, colours=True)


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(sessions.HOSTILE, 80)


def test_what_was_not_measured_is_not_a_zero() -> None:
    screen = _screen(sessions.NOTHING, 80)
    assert "not measured" in screen
    assert " 0 " not in screen


def test_breaks_that_do_not_fit_are_counted() -> None:
    screen = _screen(sessions.MANY, 80)
    assert screen.count("GB0124") == 6
    assert "and 2 more breaks: see ctrace breaks --all" in screen


def test_coverage_of_scenarios_is_named_where_it_differs() -> None:
    whole = Coverage(20, 15)
    alike = Scenario("a", 2, Coverage(10, 8)), Scenario("b", 2, Coverage(10, 8))
    apart = Scenario("a", 2, Coverage(10, 10)), Scenario("b", 2, Coverage(10, 5))
    assert "; a" not in _screen(Session(coverage=whole, scenarios=alike), 80)
    screen = " ".join(_screen(Session(coverage=whole, scenarios=apart), 80).split())
    assert "15 of 20 (75 %); a 10 of 10 (100 %), b 5 of 10 (50 %)" in screen
