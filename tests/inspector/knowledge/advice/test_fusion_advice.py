"""Torch's reasons for not fusing two nodes map to entries of the table."""

import re

import pytest

from ctrace.inspector.knowledge.advice import advice_on_refusal, entries

ENTRIES = entries("fusion")


@pytest.mark.parametrize(
    ("reason", "key"),
    [
        ("node1 is extern but not a triton kernel", "library"),
        ("node1 is extern or nop", "library"),
        ("node2 is extern or nop", "library"),
        ("no shared data", "no_shared_index"),
        ("no shared data due to indexing mismatch", "no_shared_index"),
        ("numel/rnumel mismatch (reduce) (8, 16), (4, 4)", "reductions"),
        ("numel/rnumel mismatch (non-reduce) (8, 16), (1, 1)", "pointwise"),
        ("numel/rnumel mismatch prologue mismatch (8, 16), (1, 1)", "prologue_size"),
        ("device mismatch (cuda:0 vs cpu)", "device"),
        ("template prologue can only fuse nodes with a single use into template", "prologue_uses"),
        ("node1 is extern but node2.node.data is not Pointwise", "own_second"),
        ("buf3's size: [4, 4] differs from buf1's size: [16]", "cutlass_size"),
        ("op3 is a reduction which is not yet supported by EVT", "cutlass_reduction"),
        ("a reason of a torch to come", "unmapped"),
        ("", "unmapped"),
    ],
)
def test_a_reason_has_an_entry(reason: str, key: str) -> None:
    assert advice_on_refusal(reason) == key


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_is_made_of_plain_sentences(key: str) -> None:
    entry = ENTRIES[key]
    assert entry.title
    assert not entry.title.endswith(".")
    assert len(entry.title) <= 60
    for text in filter(None, (entry.why, entry.fix, entry.risk)):
        assert text == " ".join(text.split())
        assert text.endswith(".")
        assert text[0].isupper() or text[0] == "`"
    assert bool(entry.switch) == bool(entry.risk)
    assert not entry.switch or entry.switch.startswith("torch.")
    assert entry.shows in ("", "loops")
    re.compile(entry.pattern)
