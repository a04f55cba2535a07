"""What grew between two runs that followed their memory."""

import json

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.memory_facts import AliveMemory, FoundMemory
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.changes import Change, DiffDocument, RunDiff, What
from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.reports.json.printer import render
from ctrace.reports.wording.diff_wording import answer
from tests.support.followed import CWD, FOLLOWED, FOUND, MIB, peak
from tests.support.fusions import FUSED


def held(size: int, line: int, source: str, function: str = "forward") -> AliveMemory:
    return AliveMemory(size, "saved", f"{CWD}/model.py", line, function, None, "float32", 1, source)


def run(bytes_: int, *alive: AliveMemory) -> Session:
    """Return a run with a computed peak."""
    return replace(FUSED, memory=FoundMemory(peak(bytes_), None, alive=alive))


def changes(before: Session, after: Session) -> list[Change]:
    return [each for each in compare(before, after).changes if each.what is What.MEMORY]


def lines(found: RunDiff) -> list[tuple[str, int, int]]:
    assert found.memory is not None
    return [(each.where, each.was, each.now) for each in found.memory.lines]


def test_the_line_that_grew_most_comes_first_and_is_named() -> None:
    before = run(6 * MIB, held(4 * MIB, 10, "a"), held(2 * MIB, 20, "b"))
    after = run(12 * MIB, held(5 * MIB, 10, "a"), held(7 * MIB, 20, "b"))
    found = compare(before, after)
    assert lines(found) == [("model.py:20", 2 * MIB, 7 * MIB), ("model.py:10", 4 * MIB, 5 * MIB)]
    assert answer(found).endswith("Peak memory 6.0 MiB → 12.0 MiB; most of what grew is at model.py:20 (+5.0 MiB).")
    printed = json.loads(render(DiffDocument("a", "b", found)))["memory"]
    assert (printed["was"]["bytes"], printed["now"]["bytes"]) == (6 * MIB, 12 * MIB)
    assert printed["now"]["at"] == "model.py:10"
    assert printed["lines"][0] == {
        "where": "model.py:20",
        "source": "b",
        "was": 2 * MIB,
        "now": 7 * MIB,
        "kinds": ["saved"],
    }


def test_a_line_is_found_where_it_was_moved_and_where_it_was_edited() -> None:
    before = run(6 * MIB, held(4 * MIB, 10, "a"), held(2 * MIB, 11, "b"))
    after = run(9 * MIB, held(4 * MIB, 15, "a"), held(5 * MIB, 16, "b.double()"))
    assert lines(compare(before, after)) == [("model.py:16", 2 * MIB, 5 * MIB), ("model.py:15", 4 * MIB, 4 * MIB)]


def test_of_several_other_lines_none_is_called_the_old_one() -> None:
    before = run(4 * MIB, held(4 * MIB, 10, "a"))
    after = run(6 * MIB, held(3 * MIB, 10, "b"), held(3 * MIB, 11, "c"))
    assert sorted(lines(compare(before, after))) == [
        ("model.py:10", 0, 3 * MIB),
        ("model.py:10", 4 * MIB, 0),
        ("model.py:11", 0, 3 * MIB),
    ]


def test_little_differences_of_lines_and_of_measured_peaks_are_noise() -> None:
    before, after = run(400 * MIB, held(MIB, 10, "a")), run(400 * MIB, held(2 * MIB, 10, "a"))
    assert changes(before, after) == []
    assert len(changes(before, run(400 * MIB + 1, held(MIB, 10, "a")))) == 1  # computed: no run differs by itself
    measured = replace(FOLLOWED, memory=replace(FOUND, peak=peak(9 * MIB + 1000, measured=True)))
    assert changes(FOLLOWED, measured) == []


def test_a_measured_peak_is_not_compared_with_a_computed_one() -> None:
    computed = replace(FOLLOWED, memory=replace(FOUND, peak=peak(8 * MIB), computed_peak=None))
    found = compare(FOLLOWED, computed)
    assert found.memory is not None
    assert (found.memory.was.bytes, found.memory.was.measured) == (8 * MIB, False)
    assert changes(FOLLOWED, computed) == []


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (FUSED, FUSED, "neither run was followed"),
        (FOLLOWED, FUSED, "the second run was not followed"),
        (replace(FOLLOWED, memory=replace(FOUND, why_not="killed")), FOLLOWED, "the first run was not followed"),
        (FOLLOWED, replace(FOLLOWED, memory=replace(FOUND, device="cuda")), "on cpu, then on cuda"),
        (FOLLOWED, replace(FOLLOWED, memory=replace(FOUND, train=False)), "one of the runs has a backward"),
    ],
)
def test_what_was_not_followed_is_not_compared(before: Session, after: Session, why: str) -> None:
    found = compare(before, after)
    assert found.memory is None
    assert dict(found.not_compared)[What.MEMORY].startswith(why)
    assert changes(before, after) == []
