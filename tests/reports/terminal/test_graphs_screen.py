"""`ctrace graphs` on screen."""

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_lines import of_line
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.stage_diff import stage_diff, two_stages
from ctrace.reports.terminal.graphs_screen import graphs_screen
from ctrace.reports.terminal.node_screen import line_screen, ops_screen, stage_screen
from ctrace.reports.terminal.stage_diff_screen import diff_screen
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
    each = compiled(session)[0]
    whole = bool(everything)
    if view == "overview":
        return drawn(graphs_screen(session, compiled(session), width, all_of_it=whole), width)
    if view == "ops":
        return drawn(ops_screen(session, each, each.usual()), width)
    if view == "line":
        line = "trained.py:17" if session is not HOSTILE else "a.py:8"
        return drawn(line_screen(session, of_line(session, line, each.id), width), width)
    if view in ("lowered", "parted"):
        stages = "dynamo..forward" if view == "lowered" else "joint..forward"
        stages = stages if session is not HOSTILE else "forward..post_grad"
        diff = stage_diff(each, *two_stages(each, stages))
        return drawn(diff_screen(session, each, diff, width, all_of_it=whole), width)
    return drawn(stage_screen(session, each, each.stage(view), width, all_of_it=whole), width)


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
    assert "No graphs: torch printed none in this run." in drawn(graphs_screen(NONE, (), 80), 80)
