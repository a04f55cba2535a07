"""`ctrace memory` on screen."""

import pytest

from ctrace.inspector.facts.memory_facts import (
    AliveMemory,
    CallGrowth,
    FoundMemory,
    MemoryOption,
    MemoryPeak,
    SavedMemory,
    StepMemoryDocument,
)
from ctrace.reports.terminal.memory_screen import memory_screen
from tests.support.golden import drawn

MIB = 1 << 20
FILE = "/usr/lib/python3/site-packages/transformers/models/llama/modeling_llama.py"
PEAK = MemoryPeak(8 * MIB, measured=False, part="backward", at=f"{FILE}:164")


def _saved(name: str, size: int, flops: float | None) -> SavedMemory:
    return SavedMemory(size, FILE, 164, name, False, flops, (256, size // 1024), "float32", "it is least")


FOUND = FoundMemory(
    peak=PEAK,
    eager_peak=MemoryPeak(9 * MIB, measured=False, part="backward", at="train.py:20"),
    alive=(AliveMemory(8 * MIB, "saved", FILE, 164, "forward", None, "float32", 6, "down_proj = self.down(x)"),),
    saved=(_saved("mm", 3 * MIB, None), _saved("mm_1", 2 * MIB, 5e6), _saved("mm_2", 2 * MIB, 7e6)),
    growth=(CallGrowth(1, 5 * MIB, 600 * MIB), CallGrowth(2, 5 * MIB, 650 * MIB)),
    saved_bytes=7 * MIB,
    eager_saved_bytes=6 * MIB,
    program="exit code 0",
)


def _screen(found: FoundMemory, width: int = 80) -> str:
    return drawn(memory_screen(StepMemoryDocument("train.py", found, "/home"), width), width)


def test_alike_saved_tensors_share_a_row_and_the_largest_comes_first() -> None:
    rows = [line.split() for line in _screen(FOUND, 140).splitlines() if "not saved" in line]
    assert [row[1:4] for row in rows] == [["2", "×", "f32[256,"], ["mm", "f32[256,", "3072]"]]
    assert rows[0][-4:] == ["12.0", "MFLOP", "4.0", "MiB"]
    assert rows[1][-4:] == ["cannot", "be", "3.0", "MiB"]


def test_a_program_that_failed_is_said_first() -> None:
    ended = "train.py ended with ValueError: no: the numbers are of what ran until then"
    cut = FoundMemory(PEAK, None, program="ValueError: no", problems=(ended,))
    first, second, *rest = _screen(cut, 140).splitlines()
    assert (first, second.strip()) == ("FAILED  train.py", f"! {ended}")
    assert "PEAK 8.0 MiB until then" in rest
    assert "ended with" not in " ".join(rest)


def test_the_heading_has_what_is_saved_at_one_time() -> None:
    assert "Saved for the backward: 7.0 MiB compiled, 6.0 MiB in eager" in _screen(FOUND)
    assert "not in this table" not in " ".join(_screen(FOUND).split())
    more = FoundMemory(PEAK, None, saved=FOUND.saved, saved_bytes=20 * MIB)
    assert "are not in this table" in " ".join(_screen(more).split())


def test_a_program_takes_steps_and_its_first_one_compiles() -> None:
    text = _screen(FOUND)
    assert "After 2 steps: nothing more stays alive" in text
    assert "The process has 50.0 MiB more than after the first step." in text
    model = FoundMemory(PEAK, None, growth=FOUND.growth)
    assert "After 2 more equal calls" in _screen(model)
    assert "The process has 650.0 MiB more than before these calls." in _screen(model)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_narrow_table_keeps_the_name_of_the_file(width: int) -> None:
    rows = [line for line in _screen(FOUND, width).splitlines() if "saved" in line and "164" in line and "MiB" in line]
    assert rows
    assert all("llama.py:164" in each for each in rows)


def test_what_the_computed_peak_promises_and_the_measured_one_does_not_keep() -> None:
    option = MemoryOption(
        "budget", "budget = 0.5", None, None, 16 * MIB, 0.0, computed_bytes=4 * MIB, tried=True, measured=True
    )
    found = FoundMemory(MemoryPeak(16 * MIB, True, "backward", "x"), None, options=(option,), computed_peak=PEAK)
    text = " ".join(_screen(found, 140).split())
    assert "budget = 0.5: peak 8.0 MiB -> 4.0 MiB, measured 16.0 MiB -> 16.0 MiB: does not help" in text
