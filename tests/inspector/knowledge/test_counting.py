import ast
import re

import pytest

from ctrace.inspector.knowledge.counting import count, first_of, named
from tests.support.places import ROOT

ENDING = re.compile(r"""["'](?:s|es|ies)["']""")
HAND_MADE = re.compile(r"""["'](?:s|es|ies)["'] if |else ["'](?:s|es|ies)["']""")


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (1, "entry", "1 entry"), (2, "entry", "2 entries"), (0, "graph", "no graphs"), (2, "pass", "2 passes"),
        (3, "branch", "3 branches"), (2, "key", "2 keys"), (2, "cache entry", "2 cache entries"), (2, "index", "2 indexes"),
    ],
)  # fmt: skip
def test_count(number: int, noun: str, words: str) -> None:
    assert count(number, noun) == words


def test_a_plural_that_no_rule_makes() -> None:
    assert count(2, "pair uses", "pairs use") == "2 pairs use"
    assert named(2, "call of a kernel", "calls of kernels") == "calls of kernels"


@pytest.mark.parametrize("folder", ["cli", "reports", "inspector"])
def test_nobody_else_makes_plurals(folder: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*.py") if file.name != "counting.py"]
    texts = {str(file): file.read_text() for file in files}
    # Written again, a condition is on one line; most files have no such word, and to write them all takes seconds.
    found = {
        file: HAND_MADE.findall(ast.unparse(ast.parse(text))) for file, text in texts.items() if ENDING.search(text)
    }
    assert {file: each for file, each in found.items() if each} == {}


@pytest.mark.parametrize(("most", "text"), [(1, "a, …"), (2, "a, b"), (3, "a, b")])
def test_the_first_names_show_that_there_are_more(most: int, text: str) -> None:
    assert first_of(["a", "b"], most) == text
