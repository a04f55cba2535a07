"""`ctrace breaks` on screen."""

from typing import Any

import pytest
from msgspec import structs

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.diagnosis.sentences import advised
from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.findings import Advice, Frame, Owner
from ctrace.inspector.facts.session import Session
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.breaks_screen import breaks_screen
from ctrace.reports.terminal.widgets import led
from ctrace.reports.wording.diagnosis_wording import is_of_kind
from tests.support import sessions
from tests.support.golden import WIDTHS, assert_golden, drawn


def _screen(session: Session, width: int = 80, owner: Owner | None = None, *, all_paths: bool = False) -> str:
    return drawn(
        led(run_answer(session), breaks_screen(breaks_document(session, owner), width, all_paths=all_paths)), width
    )


def _only(**parts: Any) -> str:
    """Show only the print break of `PARTIAL`, with some changes."""
    at = structs.replace(sessions.PARTIAL.breaks[0], **parts)
    return _screen(Session(breaks=(at,), graphs=sessions.PARTIAL.graphs, listings=sessions.PARTIAL.listings))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["partial", "hostile", "healthy", "failed"])
def test_screen(name: str, width: int) -> None:
    assert_golden(f"breaks-{name}-{width}.txt", _screen(sessions.ALL[name], width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["partial", "many"])
def test_screen_of_everything(name: str, width: int) -> None:
    session = {"partial": sessions.PARTIAL, "many": sessions.MANY}[name]
    assert_golden(f"breaks-{name}-all-{width}.txt", _screen(session, width, all_paths=True))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sessions.ALL)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(sessions.ALL[name], width, all_paths=True).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(sessions.HOSTILE, all_paths=True)


class TestSource:
    def test_columns_are_underlined(self) -> None:
        lines = _screen(sessions.PARTIAL).splitlines()
        at = next(number for number, line in enumerate(lines) if "> 24 │" in line)
        assert lines[at].index("side(row)") == lines[at + 1].index("^^^^^^^^^")
        assert lines[at + 1].count("^") == len("side(row)")

    def test_without_columns_nothing_is_underlined(self) -> None:
        assert "> 10 │" in _only(span=None)
        assert "^" not in _only(span=None)

    @pytest.mark.parametrize(("span", "carets"), [((0, 500), 23), ((18, 500), 5), ((20, 20), 1), ((400, 500), 0)])
    def test_columns_beyond_the_line_are_cut(self, span: tuple[int, int], carets: int) -> None:
        assert _only(span=span).count("^") == carets

    def test_without_the_file_torchs_source_line_is_shown(self) -> None:
        assert "│" not in _only(file="other.py", advice=Advice())
        assert 'print("mean", x.mean())\n' in _only(file="other.py")


def test_places_of_a_library_are_shown_below_the_users_line() -> None:
    at = sessions.PARTIAL.breaks[0]
    places = [Frame("/site-packages/lib/solve.py", line, "step", f"if t[{line}] > x:") for line in (40, 62)]
    breaks = tuple(structs.replace(at, inside=place) for place in places)
    screen = _screen(Session(breaks=breaks, graphs=sessions.PARTIAL.graphs, listings=sessions.PARTIAL.listings))
    assert "in forward  2 graph breaks" in screen
    assert "solve.py:40 in step" in screen
    assert "if t[62] > x:" in screen
    assert screen.count(at.fix[:30]) == 1


class TestAdvice:
    def test_each_advice_is_shown_once(self) -> None:
        screen = _screen(sessions.MANY, all_paths=True)
        assert screen.count("y = x.item()\n") == 8 + 1  # each break, and the example
        assert screen.count("before") == 1

    def test_a_switch_comes_with_its_risk(self) -> None:
        screen = _only()
        assert "Or switch: torch._dynamo.config.reorderable_logging_functions.add(print)" in screen
        assert "Risk: Prints then come after" in screen

    def test_a_break_without_advice_shows_none(self) -> None:
        screen = _only(advice=Advice())
        assert "before" not in screen
        assert "switch" not in screen


class TestPaths:
    def test_one_path_is_shown_and_the_others_are_counted(self) -> None:
        screen = _screen(sessions.PARTIAL, 140)
        assert "reached by train.py:31 main → model.py:10 forward\n" in screen
        assert "and 1 more path: see --all" in screen
        assert "evaluate.py" not in screen

    def test_all_paths_are_shown_on_request(self) -> None:
        screen = _screen(sessions.PARTIAL, 140, all_paths=True)
        assert "reached by train.py:31 main → model.py:10 forward\n" in screen
        assert "reached by evaluate.py:12 <module> → model.py:10 forward\n" in screen
        assert "see --all" not in screen

    def test_a_path_of_one_frame_says_nothing_new(self) -> None:
        assert "reached by" not in _only(paths=sessions.PARTIAL.breaks[1].paths)


class TestOwners:
    def test_breaks_of_other_owners_are_counted(self) -> None:
        screen = _screen(sessions.PARTIAL, owner=Owner.USER)
        assert "GB0059" in screen
        assert "GB0098" not in screen
        assert "1 break of other owners not shown" in screen

    def test_an_owner_without_breaks(self) -> None:
        assert "2 breaks of other owners not shown" in _screen(sessions.PARTIAL, owner=Owner.TORCH)

    def test_without_an_owner_all_are_shown(self) -> None:
        assert "other owners" not in _screen(sessions.PARTIAL)


def test_the_costliest_is_first() -> None:
    screen = _screen(sessions.PARTIAL)
    assert screen.index("1. model.py:24") < screen.index("2. model.py:10")


def test_breaks_and_functions_that_do_not_fit_are_counted() -> None:
    screen = _screen(sessions.MANY)
    assert screen.count("GB0124") == 6
    assert "and 2 more breaks: see --all" in screen
    assert "and 2 more functions" in screen
    assert _screen(sessions.MANY, all_paths=True).count("GB0124") == 8


def test_eager_ops_are_shown_with_their_break() -> None:
    screen = _screen(sessions.PARTIAL)
    assert screen.index("slow runs eagerly") < screen.index("2. model.py:10")
    assert screen.count("Remove the torch.compiler.disable.") == 1


def test_functions_without_a_graph_are_named() -> None:
    assert "Not compiled, Dynamo captured no graph: slow (model.py:21)" in _screen(sessions.PARTIAL)
    assert "Never compiled" not in _screen(sessions.HEALTHY)


def test_problems_are_shown() -> None:
    assert "! the payload of 'artifact' is cut short or damaged" in _screen(sessions.PARTIAL)


def test_each_break_has_the_advice_of_explain() -> None:
    screen = " ".join(_screen(sessions.PARTIAL, 400).split())
    told = advised(sessions.PARTIAL, Finding.BREAK)
    assert told
    assert all(line in screen for line in told.values())
    texts = [each.text for each in diagnose(sessions.PARTIAL).advice]
    assert all(line.startswith(tuple(texts)) for line in told.values())


@pytest.mark.parametrize(
    ("advice", "fits"),
    [
        ("net.py:3: remove `print(x)`, or guard it with `if not torch.compiler.is_compiling():`.", True),
        ("Remove `print(x)`, or guard it with `if not torch.compiler.is_compiling()`. (checked: graphs 2 → 1)", True),
        ("net.py:3: Not known how to keep `print(x)` in the graph: Dynamo cannot trace it.", False),
        ("net.py:3: the code branches on `x.item()` (line 4): select with torch.where.", False),
    ],
)
def test_an_example_is_shown_with_the_advice_that_it_is_of(advice: str, fits: bool) -> None:
    assert is_of_kind(advice, "Remove `print(x)`, or guard it with `if not torch.compiler.is_compiling()`.") is fits
