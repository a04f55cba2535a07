"""Advice on dictionaries that keep an entry for each size."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.rules.cache_rules import memos
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, edited, scene

POSITIONS = """import torch

class Positions(torch.nn.Module):
    def forward(self, x):
        n = x.shape[1]
        if n not in self.cache:
            at = torch.arange(n)[:, None]
            self.cache[n] = at.sin()
        return x + self.cache[n]
"""


def run(text: str, table: str = "len(self.cache)", *, file: str = FILE, has_size: bool = True) -> Session:
    size = Cause(CauseKind.SIZE, "x.size(1)", "8", "9", 6, file=file)
    length = Cause(CauseKind.LENGTH, table, "1", "2", 9, file=file)
    made = [
        Recompile(f"0/{number}", "forward", file, 4, False, (each,), "", nearest="0/0")
        for number, each in enumerate((size, length) if has_size else (length,), 1)
    ]
    return Session(recompiles=tuple(made), listings={file: text})


def test_an_entry_for_each_size_is_computed_in_each_call():
    (found,) = memos(scene(run(POSITIONS)))
    assert found.text.startswith("net.py:6: `self.cache` keeps an entry for each `n`")
    assert edited(found) == ["if True:", "entry = at.sin()", "return x + entry"]
    assert len(found.causes) == 2  # the size that is the key, and the dictionary that grows


@pytest.mark.parametrize("guard", ["len(self.rotary.cache)", "12 in self.layers[0].rotary.cache", "len(self.cache)"])
def test_a_guard_names_the_table_from_the_outermost_module(guard: str):
    (found,) = memos(scene(run(POSITIONS, guard)))
    assert len(found.causes) == 2


@pytest.mark.parametrize("guard", ["len(self.other)", "len(self.mycache)", "12 in self.rotary.others", "self.cache"])
def test_a_guard_on_something_else_is_no_table(guard: str):
    assert not list(memos(scene(run(POSITIONS, guard))))


def test_a_key_that_is_no_size_is_not_made_for_the_largest():
    (found,) = memos(scene(run(POSITIONS, has_size=False)))
    assert found.text.endswith("Compute the entry in each call.")


def test_a_table_with_one_key_is_expected():
    found = run(POSITIONS, "8 in self.cache", has_size=False)
    filled = [replace(each, expected=True, why_expected="filled") for each in found.recompiles]
    assert not list(memos(scene(replace(found, recompiles=tuple(filled)))))


def test_nobody_is_asked_to_change_a_package():
    assert not list(memos(scene(run(POSITIONS, file=LIBRARY))))


def test_a_name_that_is_taken_is_not_used():
    (found,) = memos(scene(run(POSITIONS.replace("at ", "entry ").replace("at.sin", "entry.sin"))))
    assert edited(found)[-1] == "return x + entry_0"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            self.cache[n] = at.sin()", "            self.other[n] = at.sin()"),
        ("return x + self.cache[n]", "return x + self.cache[n] + len(self.cache)"),
        ("return x + self.cache[n]", "return x + sum(self.cache.values())"),
        ("if n not in self.cache:", "if n not in self.cache or self.training:"),
    ],
)
def test_a_dictionary_that_is_used_otherwise_is_left_alone(old: str, new: str):
    assert old in POSITIONS
    assert not list(memos(scene(run(POSITIONS.replace(old, new)))))
