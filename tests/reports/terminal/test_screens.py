"""`ctrace time` on screen."""

import pytest

from ctrace.inspector.features.time.events import AutotuningPrinted
from ctrace.inspector.features.time.timing_model import Timings
from ctrace.reports.terminal.timing_screen import autotuning_lines, table_screen, timing_screen
from tests.support import timings
from tests.support.golden import WIDTHS, assert_golden, drawn


def _screen(name: str, width: int) -> str:
    return drawn(timing_screen(Timings("model.py", (timings.ALL[name],)), width), width)


def _table(name: str, width: int) -> str:
    return drawn(table_screen(timings.TABLES[name], width), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", timings.ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"time-{name}-{width}.txt", _screen(name, width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", timings.TABLES)
def test_table(name: str, width: int) -> None:
    assert_golden(f"time-modes-{name}-{width}.txt", _table(name, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(width: int) -> None:
    shown = [_screen(name, width) for name in timings.ALL] + [_table(name, width) for name in timings.TABLES]
    for line in "\n".join(shown).splitlines():
        assert len(line) <= width, line
        assert line == line.rstrip()


def test_noise_is_not_reported_as_a_speedup() -> None:
    for name in ("same", "noisy", "few"):
        assert "FASTER" not in _screen(name, 80)


def test_foreign_text_cannot_control_the_terminal() -> None:
    for letter in ("\x1b", "\u202e", "\r"):
        assert letter not in _screen("broken", 80)


def test_unmeasured_values_are_not_zero() -> None:
    assert "Compile time: not measured" in _screen("broken", 80)
    assert "0.00" not in _screen("noisy", 140)


PRINTED = "AUTOTUNE mm(2x3, 3x4)\n  mm 0.0113 ms 100.0%\x1b[31m\n"
STATISTICS = 'Autotune Choices Stats:\n{"num_choices": 2}\n'
AUTOTUNED = timings.measured(*timings.timed(1e-3, 2e-3), AutotuningPrinted(STATISTICS), AutotuningPrinted(PRINTED))


def _lines(verbose: bool) -> str:
    return drawn(autotuning_lines(Timings("model.py", (AUTOTUNED,)), verbose=verbose), 80)


def test_what_torch_prints_of_autotuning_is_counted_and_shown_on_request() -> None:
    assert "Torch autotuned 1 operation: -v shows what it printed." in _lines(verbose=False)
    assert "0.0113" not in _lines(verbose=False)
    shown = _lines(verbose=True)
    assert "Printed by torch while it autotuned default" in shown
    assert "  mm 0.0113 ms 100.0%" in shown
    assert STATISTICS in shown
    assert "\x1b" not in shown


def test_without_autotuning_nothing_is_said_of_it() -> None:
    silent = Timings("model.py", (timings.FASTER,))
    assert drawn(autotuning_lines(silent, verbose=True), 80) == ""
    assert drawn(autotuning_lines(silent, verbose=False), 80) == ""


def test_profiled_calls_that_something_disturbed_are_not_shown_beside_the_headline() -> None:
    measured = timings.measured(
        timings.setup(),
        *timings.timed(159e-6, 114e-6),
        timings.shares("eager", 250e-6),
        timings.shares("compiled", 79.2e-3),
    )
    shown = " ".join(drawn(timing_screen(Timings("model.py", (measured,)), 100), 100).split())
    assert "Not measured: profiled compiled calls took 79.2 ms, timed ones 114 µs." in shown
    assert "torch ops" not in shown
