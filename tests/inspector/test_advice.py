"""What to do about a break or a cause."""

import re

import pytest

from ctrace.inspector.advice import advice
from tests.helpers import CAUSE_KINDS

BREAKS = advice("breaks")
CAUSES = advice("causes")


@pytest.mark.parametrize("id_", BREAKS)
def test_every_break_says_why_and_what_to_do(id_: str):
    assert re.fullmatch(r"GB\d{4}", id_)
    assert set(BREAKS[id_]) == {"why", "fix"}


def test_every_kind_of_cause_has_advice_and_nothing_else_has():
    assert set(CAUSES) == CAUSE_KINDS


@pytest.mark.parametrize("kind", CAUSES)
def test_every_cause_says_what_to_do(kind: str):
    assert "fix" in CAUSES[kind]
    assert set(CAUSES[kind]) <= {"why", "fix"}


@pytest.mark.parametrize("entry", [*BREAKS.values(), *CAUSES.values()], ids=[*BREAKS, *CAUSES])
def test_advice_is_a_plain_sentence(entry: dict[str, str]):
    for text in entry.values():
        assert isinstance(text, str)
        assert text == text.strip()
        assert "\n" not in text
        assert text.endswith(".")
        assert text[0].isupper() or text[0] == "."


def test_tables_are_read_once():
    assert advice("breaks") is BREAKS
