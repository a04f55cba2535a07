"""`ctrace guards` on screen."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.guard_view import GuardFilter, guards_document, heads
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.guards_screen import guards_screen
from ctrace.reports.terminal.widgets import led
from tests.support import guarded, sessions
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.helpers import recorded

VIEWS = ("summary", "line", "kind", "object", "tree", "cost")
ANY = GuardFilter()


def _screen(
    session: Session, width: int = 80, *, view: str = "summary", choice: GuardFilter = ANY, all_of_it: bool = False
) -> str:
    document = guards_document(session, choice, whole=all_of_it)
    return drawn(led(run_answer(session), guards_screen(document, width, view=view, all_of_it=all_of_it)), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_screen(view: str, width: int) -> None:
    assert_golden(f"guards-{view}-{width}.txt", _screen(guarded.GUARDED, width, view=view))


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("session", [guarded.GUARDED, guarded.HOSTILE, guarded.UNREAD])
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(session: Session, view: str, width: int) -> None:
    for line in _screen(session, width, view=view, all_of_it=True).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e"])
@pytest.mark.parametrize("view", VIEWS)
def test_foreign_text_cannot_control_the_terminal(view: str, letter: str) -> None:
    assert letter not in _screen(guarded.HOSTILE, view=view, all_of_it=True)


def test_a_choice_lists_guards_one_by_one() -> None:
    screen = _screen(guarded.GUARDED, choice=GuardFilter(kind="tensor", name="images"))
    assert "1 guard selected" in screen
    assert "images  Tensor float32[8, 3, 32, 32]" in screen
    assert "channels last" in screen


def test_a_global_is_separate_from_its_heading() -> None:
    screen = _screen(recorded("helper_guards"), view="object", all_of_it=True)
    assert "globals: torch  3" in screen


def test_missing_measurements_are_reported() -> None:
    uncosted = replace(guarded.GUARDED, guards={"0/1": guarded.GUARDED.guards["0/1"]})
    assert "Not measured. Run `ctrace guards --cost TARGET`" in _screen(uncosted, view="cost")


def test_an_untimed_call_is_reported() -> None:
    untimed = replace(guarded.GUARDED, scenarios=())
    assert "One call of the compiled function: not measured." in _screen(untimed, view="cost")


def test_guard_time_as_a_share_of_a_call() -> None:
    assert "One call in base takes 400.0 µs" in _screen(guarded.GUARDED, 140, view="cost")
    assert "guards are 1.5% of it" in _screen(guarded.GUARDED, 140, view="cost")


def test_a_run_without_guards_says_so() -> None:
    assert "No guards" in _screen(sessions.NOTHING)


def test_unreadable_text_is_reported() -> None:
    screen = _screen(guarded.UNREAD)
    assert "1 line of torch's text could not be read" in screen
    assert "those recorded do not match" in screen


def test_all_shows_every_compilation() -> None:
    assert "Other compilations" in _screen(guarded.GUARDED)
    shown = _screen(guarded.GUARDED, all_of_it=True)
    assert "Other compilations" not in shown
    assert "60.0 µs" in shown


def test_the_number_of_guards_in_explain_is_on_the_screen_too() -> None:
    """Torch counts guards when it creates them, the tree has those that a call checks: two numbers of one run."""
    session = guarded.GUARDED
    compilations = tuple(replace(each, guards=842) for each in session.compilations)
    session = replace(session, compilations=compilations)
    shown = _screen(session, 120)
    number = heads(session)[0].number
    assert f"{number} guards checked, 842 created while tracing" in shown
