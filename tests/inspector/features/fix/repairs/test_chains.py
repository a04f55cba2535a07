"""Repairs that only help together."""

from collections import Counter
from typing import Any

import pytest

from ctrace.inspector.facts.trial import Condition, NewText, Trial
from ctrace.inspector.features.fix.repairs.candidates import RepairCandidate
from ctrace.inspector.features.fix.repairs.fixing import gets_on, names_of, together, uncovers
from ctrace.inspector.features.fix.repairs.proving import Attempt, keys_of
from ctrace.inspector.features.fix.repairs.repair_result import ProofCheck, ProofOutcome
from tests.support.gated import at_text, session_of

SOURCE = "def forward(x):\n    print(x)\n    y = x.item()\n    return x\n"
BOTH = session_of(SOURCE, [at_text(SOURCE, "print"), at_text(SOURCE, "item")])
ONE = session_of(SOURCE, [at_text(SOURCE, "item")])
PRINT, ITEM = keys_of(session_of(SOURCE, [at_text(SOURCE, "print")])), keys_of(ONE)
BASE = {"/a.py": "a\nb\nc\nd\n", "/b.py": "x\n"}


def attempt(*failed: str, session: Any = ONE, uncovered: tuple[Any, ...] = ()) -> Attempt:
    return Attempt(ProofOutcome(tuple(ProofCheck(each, False) for each in failed)), session, uncovered)


def candidate(name: str, text: str, **parts: Any) -> RepairCandidate:
    return RepairCandidate("id", ("id",), name, "source", f"Do {name}.", (NewText("/a.py", text),), **parts)


@pytest.mark.parametrize(
    ("failed", "gone", "expected"),
    [
        (("finding_gone",), PRINT + ITEM, True),
        (("finding_gone",), ITEM, False),
        (("finding_gone", "nothing_new"), PRINT + ITEM, False),
        (("outputs_equal",), PRINT + ITEM, False),
    ],
)
def test_a_change_gets_on_if_a_place_of_its_finding_is_gone(
    failed: tuple[str, ...], gone: Counter[Any], expected: bool
):
    assert gets_on(attempt(*failed), gone, BOTH) is expected
    assert not gets_on(attempt(*failed, session=None), gone, BOTH)


@pytest.mark.parametrize(
    ("failed", "gone", "expected"),
    [
        (("nothing_new",), PRINT, True),
        (("nothing_new", "finding_gone"), PRINT + Counter([("skip", "f", "/a.py", "loop")]), True),
        (("nothing_new",), PRINT + ITEM, False),
        (("nothing_new", "graphs"), PRINT, False),
        (("finding_gone",), PRINT, False),
    ],
)
def test_a_change_uncovers_a_break(failed: tuple[str, ...], gone: Counter[Any], expected: bool):
    before = session_of(SOURCE, [at_text(SOURCE, "print")])
    if ITEM & gone:
        before = BOTH
    assert uncovers(attempt(*failed, uncovered=tuple(ITEM)), gone, before) is expected
    assert not uncovers(attempt(*failed), gone, before)


def test_several_places_become_one_repair():
    first = candidate("one", "A\nb\nc\nd\n", conditions=(Condition("/a.py", 1, "a"),))
    again = candidate("one", "a\nb\nC\nd\n", question="May it?", changes_arithmetic=True)
    conflict = candidate("two", "X\nb\nc\nd\n")
    found = together([first, again, conflict], BASE)
    assert found is not None
    assert found.files == (NewText("/a.py", "A\nb\nC\nd\n"),)
    assert (found.name, found.summary, found.question) == ("one", "Do one.", "May it?")
    assert found.changes_arithmetic
    assert found.conditions == (Condition("/a.py", 1, "a"),)
    other = together([first, candidate("two", "a\nb\nc\nD\n")], BASE)
    assert other is not None
    assert names_of(other) == {"one", "two"}


def test_one_place_is_no_combination():
    setting = RepairCandidate("id", ("id",), "s", "configuration", "", trial=Trial(dynamic=True))
    assert together([candidate("one", "A\nb\nc\nd\n"), setting], BASE) is None
    assert together([candidate("one", "A\nb\nc\nd\n"), candidate("l", "a\nb\nc\nD\n", library="einops")], BASE) is None
