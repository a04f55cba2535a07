"""`ctrace fusion` on screen."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.fusion_facts import FusionCandidate, FusionRound, Score
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.fusion_screen import fusion_screen, nodes_screen, round_text, rounds_screen
from ctrace.reports.terminal.widgets import led
from tests.support.explained import screen_of
from tests.support.fusions import EAGER, FUSED, HOSTILE, OLD, SEVERAL, layers
from tests.support.golden import WIDTHS, assert_golden, drawn

SESSIONS = {"several": SEVERAL, "hostile": HOSTILE}
SCREENS = ("overview", "overview-all", "rounds", "rounds-all", "nodes", "explain")


def _screen(session: Session, name: str, width: int) -> str:
    view, _, everything = name.partition("-")
    whole = bool(everything)
    if view == "explain":
        return drawn(screen_of(replace(session, fusions=session.fusions[:1]), width, verbose=True), width)
    document = fusion_document(session)
    if view == "nodes":
        shown = nodes_screen(document, width, all_of_it=whole)
    else:
        draw = rounds_screen if view == "rounds" else fusion_screen
        shown = draw(document, width, all_of_it=whole, verbose=whole)
    return drawn(led(run_answer(session), shown), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"fusion-{name}-{width}.txt", _screen(SEVERAL, name, width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("session", SESSIONS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(session: str, name: str, width: int) -> None:
    for line in _screen(SESSIONS[session], name, width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("name", SCREENS)
def test_foreign_text_cannot_control_the_terminal(name: str) -> None:
    screen = _screen(HOSTILE, name, 80)
    assert not [letter for letter in ("\x1b", "\u202e", "\x07") if letter in screen]


@pytest.mark.parametrize("name", ["overview", "rounds", "nodes"])
def test_without_inductor_it_says_so(name: str) -> None:
    assert "no graph went through Inductor's scheduler" in _screen(EAGER, name, 80)
    assert "the backend is eager" in " ".join(_screen(EAGER, name, 80).split())


def test_an_old_log_names_missing_data() -> None:
    old = replace(FUSED, fusions=(OLD,))
    assert "an older ctrace wrote" in _screen(old, "overview", 140)
    assert "an older ctrace wrote" in _screen(old, "nodes", 140)
    assert "Not fused" not in _screen(old, "overview", 140)


def test_omitted_rows_are_counted() -> None:
    many = replace(FUSED, fusions=(layers(2),) * 8)
    assert "and 2 more graph parts: see --all" in _screen(many, "overview", 80)
    assert "more graph parts" not in _screen(many, "overview-all", 80)
    wide = replace(FUSED, fusions=(layers(30),))
    assert "and 20 more nodes: see --all" in _screen(wide, "nodes", 80)
    assert "more node" not in _screen(wide, "nodes-all", 80)


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (FusionRound(7, 6, (("a", "b"),)), "7 nodes to 6: 1 pair fused"),
        (FusionRound(7, 7, tried=0), "7 nodes to 7: no pairs tried"),
        (FusionRound(7, 7, tried=3), "7 nodes to 7: 3 pairs tried, none fusible"),
        (
            FusionRound(7, 6, (("a", "b"),), tried=3, candidates=(FusionCandidate("a", "b"),)),
            "7 nodes to 6: 3 pairs tried, 1 fusible, 1 fused",
        ),
    ],
)
def test_a_round_summary(each: FusionRound, text: str) -> None:
    assert round_text(each) == text


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (Score(2, 1, 8, 0, -1), Score(0, 1, 8, 0, -1), "ahead of the next pair, which goes into a template"),
        (Score(2, 1, 8, 0, -1), Score(1, 1, 8, 0, -1), "one of the two starts with a template"),
        (
            Score(2, 1, 8, 0, -1),
            Score(1, 0, 0, 9, -1),
            "ahead of the next pair, which shares nothing in the same order",
        ),
        (Score(2, 1, 8, 0, -1), Score(2, 0, 9, 0, -1), "both reductions or neither, share 8 B"),
        (Score(2, 1, 8, 0, -1), Score(2, 0, 9, 0, -1), "ahead of the next pair, whose nodes are less alike"),
        (Score(2, 1, 4096, 0, -1), Score(2, 1, 1024, 0, -1), "ahead of the next pair, which shares 1.0 KiB"),
        (Score(2, 1, 8, 64, -3), Score(2, 1, 8, 16, -1), "read 64 B in different ways, 3 nodes apart"),
        (Score(2, 1, 8, 64, -3), Score(2, 1, 8, 16, -1), "ahead of the next pair, which reads 16 B in different ways"),
        (
            Score(2, 1, 8, 0, -1),
            Score(2, 1, 8, 0, -5),
            "neighbors in the program; ahead of the next pair, which is 5 nodes apart",
        ),
        (Score(2, 1, 8, 0, -1), Score(2, 1, 8, 0, -1), "tied with the next pair; torch found it first"),
        (Score(2, -1, 8, 0, -1), Score(2, -1, 8, 0, -1), "reductions of different sizes"),
    ],
)
def test_why_a_pair_comes_first(one: Score, other: Score, words: str) -> None:
    round_ = FusionRound(
        4, 4, tried=2, candidates=(FusionCandidate("op1", "op2", one), FusionCandidate("op3", "op4", other))
    )
    session = replace(FUSED, fusions=(replace(FUSED.fusions[0], rounds=(round_,)),))
    assert words in " ".join(_screen(session, "rounds", 140).split())
