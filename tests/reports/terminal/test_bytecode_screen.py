"""`ctrace bytecode` on screen."""

import sys
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import SelectionError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_view import BytecodeFilter, bytecode_document
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.bytecode_screen import bytecode_screen, source_screen
from ctrace.reports.terminal.widgets import led
from tests.support import sessions
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.helpers import recorded
from tests.support.sampling import sampled

SESSION = recorded("rewritten")
EVIL = "\x1b[31mred\x1b[0m \u202egnitirw"


def _screen(
    session: Session,
    width: int = 80,
    graph: str | None = None,
    line: int | None = None,
    *,
    source: bool = False,
    **layout: Any,
) -> str:
    choice, whole = BytecodeFilter(graph=graph, line=line), bool(layout.get("all_of_it"))
    draw = source_screen if source else bytecode_screen
    document = bytecode_document(session, choice, source=source, whole=whole)
    return drawn(led(run_answer(session), draw(document, width, **layout)), width)


def _hostile() -> Session:
    codes = {}
    for id_, each in SESSION.codes.items():
        instructions = tuple(replace(one, text=EVIL if one.text else "") for one in each.after.instructions)
        constants = tuple(replace(one, text=EVIL) for one in each.after.constants)
        after = replace(each.after, instructions=instructions, constants=constants)
        codes[id_] = replace(each, after=after, before=replace(each.before, qualname=EVIL))
    return replace(SESSION, codes=codes, listings=dict.fromkeys(SESSION.listings, EVIL * 60))


@pytest.mark.parametrize("width", WIDTHS)
def test_summary_and_first_diff(width: int) -> None:
    assert_golden(f"bytecode-{width}.txt", _screen(SESSION, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_resume_function(width: int) -> None:
    assert_golden(f"bytecode-resume-{width}.txt", _screen(SESSION, width, "2/0"))


@pytest.mark.parametrize("width", sampled([40, *WIDTHS]))
@pytest.mark.parametrize("session", [SESSION, _hostile()])
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(session: Session, width: int) -> None:
    for line in _screen(session, width, all_of_it=True).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width", sampled(WIDTHS))
def test_foreign_text_cannot_control_the_terminal(width: int) -> None:
    assert not {"\x1b", "\u202e"} & set(_screen(_hostile(), width, all_of_it=True))


def test_either_layout_can_be_selected() -> None:
    assert "│" in _screen(SESSION, 80, "0/0", side_by_side=True)
    assert "│" not in _screen(SESSION, 140, "0/0", side_by_side=False)


def test_all_shows_every_instruction() -> None:
    folded, whole = _screen(SESSION, 80, "0/0"), _screen(SESSION, 80, "0/0", all_of_it=True)
    assert "(7 instructions)" in folded
    assert "record_pregraph_bytecode_enter" not in folded
    assert "record_pregraph_bytecode_enter" in whole


def test_one_line() -> None:
    shown = _screen(SESSION, 80, "0/0", line=17)
    assert "y = x @ self.weight" in shown
    assert "self.count" not in shown
    with pytest.raises(SelectionError, match="--line 99"):
        _screen(SESSION, 80, "0/0", line=99)


def test_a_log_without_bytecode_says_so() -> None:
    assert "No bytecode" in _screen(sessions.HEALTHY)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_source_of_new_code(width: int) -> None:
    drawn_source = _screen(SESSION, width, "0/0", source=True)
    if sys.version_info[:2] == (3, 11):
        assert_golden(f"bytecode-source-{width}.txt", drawn_source)
    else:
        assert "No source: It was recorded on Python 3.11" in drawn_source


@pytest.mark.parametrize("width", WIDTHS)
def test_source_of_foreign_text_is_harmless(width: int) -> None:
    for line in _screen(_hostile(), width, source=True, all_of_it=True).splitlines():
        assert len(line) <= width
        assert not {"\x1b", "\u202e"} & set(line)


def test_code_that_cannot_be_reconstructed_is_shown_as_bytecode() -> None:
    codes = {id_: replace(each, after=replace(each.after, python="2.7")) for id_, each in SESSION.codes.items()}
    shown = _screen(replace(SESSION, codes=codes), 80, "0/0", source=True)
    assert "No source: It was recorded on Python 2.7" in shown
    assert "LOAD_GLOBAL" in shown
