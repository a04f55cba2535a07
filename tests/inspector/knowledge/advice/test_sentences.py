"""What to do names the thing to change: no advice begins with a pronoun whose noun the reader has to guess."""

import ast
import re
from pathlib import Path

import pytest

from ctrace.inspector.knowledge.advice import entries
from tests.support.places import ROOT

TABLES = ("breaks", "skips", "causes", "attention", "dangers", "fusion")
LOST = re.compile(r"^(?:It|They|These|Those)\b|^(?:If |Do not |Let )?(?:\w+ ){1,2}(?:it|them|its)\b")
"""`Keep it in a tensor`, or `Call it once`: the first noun comes after the pronoun, or never."""


@pytest.mark.parametrize("table", TABLES)
def test_what_to_do_begins_with_a_noun(table: str) -> None:
    for id_, entry in entries(table).items():
        for expression in ("", "self.scale"):
            fix = entry.fix.replace("{it}", expression or (entry.it if entry.it != "it" else "`name`"))
            assert not LOST.search(fix), (table, id_, entry.fix)


def test_the_rule_sees_such_a_text() -> None:
    assert LOST.search("Keep it in a tensor")
    assert LOST.search("Set them once, before the first call.")
    assert not LOST.search("Keep `self.scale` in a tensor, or compile it with dynamic=True.")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "inspector" / "diagnosis" / "rules").glob("*.py")), ids=lambda at: at.stem
)
def test_rules_begin_with_a_noun(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value[:1].isupper():
            assert not LOST.search(node.value), f"{path.name}:{node.lineno}: {node.value}"


def test_every_file_of_advice_is_in_a_table() -> None:
    """So that a new file cannot escape the tests above."""
    folder = ROOT / "inspector/knowledge/advice"
    assert {path.stem for path in folder.glob("*.yaml")} == {*TABLES, "unadvised", "versions"} - {"breaks"}
