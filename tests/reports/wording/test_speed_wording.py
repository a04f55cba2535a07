"""The line that compares compiled with eager."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.compile_time import Speed
from ctrace.inspector.features.time.brief import speed_of
from ctrace.inspector.features.time.events import Failed
from ctrace.reports.wording.speed_wording import sentence
from tests.support import timings
from tests.support.timings import measured, setup, timed


def test_faster() -> None:
    found = speed_of(measured(setup(), *timed(1.15e-3, 0.82e-3), timings.MADE))
    assert found.verdict == "faster"
    assert (
        sentence(found) == "compiled is 1.40x faster than eager (820 µs against 1.15 ms; 1.37x to 1.43x over 15 rounds)"
    )


def test_slower_and_the_same() -> None:
    slower = sentence(speed_of(measured(setup(), *timed(1e-3, 2e-3))))
    assert slower.startswith("compiled is 2.00x slower than eager (2.00 ms against 1.00 ms; ")
    same = sentence(speed_of(measured(setup(), *timed(1e-3, 1e-3))))
    assert same.startswith("no measurable difference to eager (1.00 ms against 1.00 ms; ")


def test_a_step_says_so() -> None:
    assert " against 4.00 ms a step; " in sentence(speed_of(measured(setup(), *timed(4e-3, 2e-3, part="step"))))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            Speed(why="a program calls torch.compile itself"),
            "not measured, because a program calls torch.compile itself",
        ),
        (Speed(), "not measured, because no round was measured"),
    ],
)
def test_not_measured(found: Speed, text: str) -> None:
    assert sentence(found) == text


def test_too_much_noise_is_no_speed_up() -> None:
    found = replace(Speed("faster", "base", "forward", 1e-3, 1e-3, 1.2, 0.7, 2.0, 9), verdict="undecided")
    assert sentence(found).startswith("undecided, the times vary too much (1.00 ms against 1.00 ms; 0.70x to 2.00x")


def test_why_nothing_was_measured() -> None:
    failed = timings.measured(setup(), Failed("eager", "ValueError", "no such luck\nmore", "base"))
    assert speed_of(failed).why == "eager failed: ValueError: no such luck"
    assert speed_of(measured(setup(), stopped="timed out after 60 s")).why == (
        "the measurement was stopped: timed out after 60 s"
    )
