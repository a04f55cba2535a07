"""`ctrace graphs` on screen."""

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.graphs_document import (
    graph_line_document,
    graph_stage_document,
    graphs_document,
    stage_diff_document,
)
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.graphs_screen import graphs_screen
from ctrace.reports.terminal.node_screen import line_screen, ops_screen, stage_screen
from ctrace.reports.terminal.stage_diff_screen import diff_screen
from ctrace.reports.terminal.widgets import led
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.printed import HOSTILE, NONE, trained

SESSIONS = {"trained": trained(), "hostile": HOSTILE}
SCREENS = (
    "overview",
    "overview-all",
    "dynamo",
    "forward",
    "forward-all",
    "ops",
    "line",
    "lowered",
    "parted",
    "parted-all",
)


def _screen(session: Session, name: str, width: int) -> str:
    view, _, everything = name.partition("-")
    graph = compiled(session)[0].id
    whole = bool(everything)
    if view == "overview":
        screen = graphs_screen(graphs_document(session), width, all_of_it=whole)
        return drawn(led(run_answer(session), screen), width)
    if view == "ops":
        return drawn(ops_screen(graph_stage_document(session, graph)), width)
    if view == "line":
        line = "trained.py:17" if session is not HOSTILE else "a.py:8"
        return drawn(line_screen(graph_line_document(session, line, graph), width), width)
    if view in ("lowered", "parted"):
        stages = "dynamo..forward" if view == "lowered" else "joint..forward"
        stages = stages if session is not HOSTILE else "forward..post_grad"
        return drawn(diff_screen(stage_diff_document(session, stages, graph), width, all_of_it=whole), width)
    return drawn(stage_screen(graph_stage_document(session, graph, view), width, all_of_it=whole), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"graphs-{name}-{width}.txt", _screen(SESSIONS["trained"], name, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_screen(width: int) -> None:
    assert_golden(f"graphs-hostile-{width}.txt", "\n".join(_screen(HOSTILE, name, width) for name in SCREENS))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*SCREENS, "backward"])
@pytest.mark.parametrize("session", SESSIONS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(session: str, name: str, width: int) -> None:
    for line in _screen(SESSIONS[session], name, width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("name", [*SCREENS, "backward"])
def test_foreign_text_cannot_control_the_terminal(name: str) -> None:
    screen = _screen(HOSTILE, name, 80)
    assert not [letter for letter in ("\x1b", "\u202e", "\x07") if letter in screen]


def test_a_run_without_graphs_says_so() -> None:
    assert "No graphs: torch printed none in this run." in drawn(graphs_screen(graphs_document(NONE), 80), 80)
