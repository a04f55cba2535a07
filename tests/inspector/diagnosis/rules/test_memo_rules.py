"""Advice on dictionaries that keep an entry for each size."""

import pytest

from ctrace.inspector.diagnosis.rules.memo_rules import memos
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from tests.inspector.diagnosis.scenes import FILE, edited, scene

POSITIONS = """import torch

class Positions(torch.nn.Module):
    def forward(self, x):
        n = x.shape[1]
        if n not in self.cache:
            at = torch.arange(n)[:, None]
            self.cache[n] = at.sin()
        return x + self.cache[n]
"""


def run(text: str) -> Session:
    size = Cause(CauseKind.SIZE, "x.size(1)", "8", "9", 6, file=FILE)
    length = Cause(CauseKind.LENGTH, "len(self.cache)", "1", "2", 9, file=FILE)
    made = [
        Recompile(f"0/{number}", "forward", FILE, 4, False, (each,), "", nearest="0/0")
        for number, each in enumerate((size, length), 1)
    ]
    return Session(recompiles=tuple(made), listings={FILE: text})


def test_an_entry_for_each_size_is_computed_in_each_call():
    (found,) = memos(scene(run(POSITIONS)))
    assert found.text.startswith("net.py:6: `self.cache` keeps an entry for each `n`")
    assert edited(found) == ["if True:", "entry = at.sin()", "return x + entry"]
    assert len(found.causes) == 2  # the size that is the key, and the dictionary that grows


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
