"""`ctrace shapes` on screen."""

import pytest
from msgspec import structs

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.shape_facts import DimKind
from ctrace.inspector.findings.shape_view import violations
from ctrace.inspector.findings.shapes_document import shapes_document
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.shapes_screen import shapes_screen
from ctrace.reports.terminal.widgets import led
from tests.support import sizes
from tests.support.explained import screen_of
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.helpers import recorded


def _screen(session: Session, width: int = 80, function: str | None = None, *, everything: bool = False) -> str:
    return drawn(
        led(run_answer(session), shapes_screen(shapes_document(session, function), width, everything=everything)), width
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["sizes", "violated", "hostile"])
def test_screen(name: str, width: int) -> None:
    assert_golden(f"shapes-{name}-{width}.txt", _screen(sizes.ALL[name], width))


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_of_everything(width: int) -> None:
    assert_golden(f"shapes-sizes-all-{width}.txt", _screen(sizes.SIZES, width, everything=True))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sizes.ALL)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(sizes.ALL[name], width, everything=True).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(sizes.HOSTILE, everything=True)


def test_a_long_setting_folds_where_a_shell_allows() -> None:
    names = [f"a_rather_long_name_{number}" for number in range(5)]
    graphs = [sizes.graph(f"0/{n}", *(sizes.input_of(name, sizes.sized(0, 4 + n)) for name in names)) for n in (0, 1)]
    screen = _screen(structs.replace(sizes.SIZES, shapes=tuple(graphs)))
    _, _, setting = screen.partition("TORCH_COMPILE_DYNAMIC_SOURCES=")
    folded = setting.partition("\n\n")[0].replace("\\\n", "").replace(" ", "").strip().strip('"')
    assert folded == ",".join(f"L['{name}']:0" for name in names)


def test_torchs_own_log_names_missing_data() -> None:
    screen = _screen(recorded("sizes.torch"))
    assert "torch alone wrote this log: it records sizes that were dynamic at first" in screen
    assert "fixed to 4" in screen


def test_a_tensor_whose_static_sizes_torchs_log_does_not_have_shows_no_sizes_that_it_does_not_have() -> None:
    first = sizes.graph("0/0", sizes.input_of("x", sizes.sized(1, 12, DimKind.SYMBOLIC)))
    screen = _screen(structs.replace(sizes.SIZES, shapes=(structs.replace(first, complete=False),)))
    assert "[?, 12, …]" in screen


def test_a_run_without_sizes_says_so() -> None:
    assert "No sizes known" in _screen(sizes.ALL["none"])


def test_explain_says_why_a_mark_cannot_be_kept() -> None:
    (sentence,) = violations(sizes.VIOLATED)
    assert sentence.split(".")[0] in drawn(screen_of(sizes.VIOLATED, 200), 200)
