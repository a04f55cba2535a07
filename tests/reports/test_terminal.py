"""The terminal report: golden screens, and what it must never do."""

import io

import pytest
from rich.console import Console

from ctrace.inspector.model import Session
from ctrace.reports.terminal import render_terminal
from tests import sessions
from tests.golden import assert_golden


def _screen(session: Session, width: int, *, colours: bool = False) -> str:
    text = io.StringIO()
    render_terminal(session, Console(file=text, width=width, force_terminal=colours, legacy_windows=False))
    return text.getvalue()


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", sessions.ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"{name}-{width}.txt", _screen(sessions.ALL[name], width))


@pytest.mark.parametrize("width", [80, 140])
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
