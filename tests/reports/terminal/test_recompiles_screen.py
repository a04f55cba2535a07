"""`ctrace recompiles` on screen."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.recompiles_document import recompiles_document
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.recompiles.recompile_view import groups
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.recompiles_screen import _fits_example, recompiles_screen
from ctrace.reports.terminal.widgets import led
from tests.support import recompiled, sessions
from tests.support.golden import WIDTHS, assert_golden, drawn

ALL = {**sessions.ALL, **recompiled.ALL}


def _screen(session: Session, width: int = 80, *, all_of_it: bool = False) -> str:
    return drawn(
        led(run_answer(session), recompiles_screen(recompiles_document(session), width, all_of_it=all_of_it)), width
    )


def _only(*numbers: int) -> Session:
    """Keep the recompiles with some indexes."""
    kept = tuple(recompiled.SEVERAL.recompiles[number] for number in numbers)
    return replace(recompiled.SEVERAL, recompiles=kept)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", recompiled.ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"recompiles-{name}-{width}.txt", _screen(recompiled.ALL[name], width))


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_of_everything(width: int) -> None:
    assert_golden(f"recompiles-several-all-{width}.txt", _screen(recompiled.SEVERAL, width, all_of_it=True))


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("name", ALL)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(ALL[name], width, all_of_it=True).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
@pytest.mark.parametrize("session", [recompiled.HOSTILE, sessions.HOSTILE])
def test_foreign_text_cannot_control_the_terminal(session: Session, letter: str) -> None:
    assert letter not in _screen(session, all_of_it=True)


def test_continuing_recompilations_are_first() -> None:
    screen = _screen(recompiled.SEVERAL)
    assert screen.index("mask.size(0)") < screen.index("1. ") + 20
    assert screen.index("Keeps recompiling") < screen.index("A limited number")


def test_a_run_without_recompilations_says_so() -> None:
    assert "No recompilations: 1 graph, compiled once." in _screen(sessions.HEALTHY)
    assert "entries used" not in _screen(sessions.HEALTHY)


class TestCauses:
    def test_values_in_order(self) -> None:
        assert "Compiled once for each value: 2, 3, 5." in _screen(recompiled.SEVERAL)
        assert "Compiled once for each value: 0, 1, 2, 3, 4, 5, 6, 7, and 2 more." in _screen(recompiled.SEVERAL)

    def test_values_of_a_dynamic_size_share_a_graph(self) -> None:
        assert "Values seen: 4, 8.\n" in _screen(_only(0))

    def test_similar_guards_are_counted(self) -> None:
        assert "51 more guards failed in the same way." in _screen(recompiled.SEVERAL)

    def test_other_differences_are_shown(self) -> None:
        assert "Changed together with how." in _screen(recompiled.SEVERAL)

    def test_an_expected_recompilation_has_a_reason_and_no_advice(self) -> None:
        screen = _screen(_only(0))
        assert "Expected. It is." in screen
        assert "Mark it dynamic." not in screen

    def test_examples_are_of_continuing_recompilations(self) -> None:
        assert "before │" not in _screen(_only(1))
        assert "before │" in _screen(_only(1), all_of_it=True)
        assert "before │ x = x + self.number" in _screen(recompiled.SEVERAL)

    @pytest.mark.parametrize(
        ("advice", "fits"),
        [
            ("", True),
            ("net.py:3: keep `x` in a buffer.", False),
            ("net.py:3: set torch._dynamo.config.allow_unspec_int_on_nn_module = True. (checked: graphs 9 → 1)", True),
        ],
    )
    def test_an_example_is_shown_with_advice_that_it_is_of(self, advice: str, fits: bool) -> None:
        group = next(each for each in groups(recompiled.SEVERAL) if each.subject == "self.number")
        assert _fits_example(advice, group) is fits

    def test_each_advice_is_shown_once(self) -> None:
        again = replace(recompiled.NUMBER, subject="self.other", was="1", now="2")
        more = tuple(replace(each, causes=(again,)) for each in recompiled.SEVERAL.recompiles[-2:])
        both = replace(recompiled.SEVERAL, recompiles=(*recompiled.SEVERAL.recompiles, *more))
        assert _screen(both).count("before │ x = x + self.number") == 1

    def test_the_line_that_specialized_a_size_is_shown(self) -> None:
        assert "> 15 │ for row in range(mask.shape[0]):" in _screen(recompiled.SEVERAL)
        assert "│" not in _screen(_only(0))

    def test_unknown_values(self) -> None:
        assert "Values not known." in _screen(recompiled.TOLD_BY_TORCH)

    def test_causes_that_do_not_fit_are_counted(self) -> None:
        causes = tuple(replace(recompiled.HOW, subject=f"how{number}") for number in range(9))
        many = replace(recompiled.SEVERAL, recompiles=(replace(recompiled.SEVERAL.recompiles[0], causes=causes),))
        assert "and 3 more causes: see --all" in _screen(many)
        assert "9. how8" in _screen(many, all_of_it=True)


class TestCaches:
    def test_modules_that_share_a_cache(self) -> None:
        screen = _screen(recompiled.SEVERAL, 140)
        assert "11 modules share this cache: Block 0, Block 1, Block 2, Block 3, Block 4, Block 5, and 5 more" in screen
        assert screen.count("modules share this cache") == 1

    def test_eager_ops_after_the_limit(self) -> None:
        screen = _screen(recompiled.SEVERAL)
        assert "Recompile limit hit: calls that match no entry run eagerly, 4 ops so far." in screen
        assert screen.count("Recompile limit hit") == 1

    def test_each_entry_has_its_call_and_its_nearest_entry(self) -> None:
        lines = _screen(recompiled.SEVERAL).splitlines()
        assert any(line.split() == ["0/0", "base,", "call", "1", "first", "call", "1.5", "s"] for line in lines)
        assert any(line.startswith(" 0/3    base, call 4  0/1 (1)   mask.size(0) 2 → 3") for line in lines)

    def test_entries_that_do_not_fit_are_counted(self) -> None:
        assert "and 2 more entries: see --all" in _screen(recompiled.SEVERAL)
        assert "more entries" not in _screen(recompiled.SEVERAL, all_of_it=True)

    def test_without_a_comparison_with_entries_torchs_reason_is_shown(self) -> None:
        lines = _screen(recompiled.TOLD_BY_TORCH).splitlines()
        assert any(line.split() == ["0/1", "0/0", "x.size(0)", "4", "→", "8", "?"] for line in lines)


def test_problems_are_shown() -> None:
    assert "! the guards behind a recompile could not be recorded" in _screen(recompiled.SEVERAL)
