"""The advice tables on breaks, skips and causes."""

import ast
import re
import textwrap

import pytest

from ctrace.inspector.findings.breaks.advice_lookup import registered_ids
from ctrace.inspector.findings.breaks.break_fold import _PHRASES
from ctrace.inspector.knowledge.advice import (
    AdviceEntry,
    advice_on_break,
    advice_on_cause,
    entries,
    files_of,
    known_ids,
)
from tests.support.helpers import CAUSE_KINDS

BREAKS = entries("breaks")
SKIPS = entries("skips")
CAUSES = entries("causes")
ATTENTION = entries("attention")
ALL = {
    f"{table}:{key}": entry
    for table, known in (("breaks", BREAKS), ("skips", SKIPS), ("causes", CAUSES), ("attention", ATTENTION))
    for key, entry in known.items()
}
CONSTRUCTS = {
    "assert", "check", "if", "while", "ternary", "print", "log", "warn", "clock", "cast", "format", "import",
    "index",
}  # fmt: skip
"""The kinds that `constructs.py` distinguishes."""
TRITON_CASES = {*_PHRASES.values(), "triton_unseen"}
"""The cases that `break_fold.py` distinguishes."""
OWNERS = {"effect", "foreign", "namesake"}
TORCH_TEXTS = {"unbacked"}
"""The cases that the owner of the code, or the use of a result, makes; see `breaks/break_fold.py`."""


def sentences(entry: AdviceEntry) -> list[str]:
    return [text for text in (entry.why, entry.fix, entry.risk, entry.expected) if text]


def test_a_break_is_known_by_its_id_or_by_the_users_construct():
    for key in BREAKS:
        id_, _, case = key.partition("/")
        assert re.fullmatch(r"GB\d{4}", id_) or id_ in CONSTRUCTS | TRITON_CASES, key
        assert not case or (case in CONSTRUCTS | TRITON_CASES | OWNERS | TORCH_TEXTS and id_ in BREAKS), key


@pytest.mark.parametrize("table", ["breaks", "skips", "causes", "attention"])
def test_no_key_is_written_twice(table: str):
    texts = [file.read_text(encoding="utf-8") for file in files_of(table)]
    keys = [key for text in texts for key in re.findall(r"^([^\s#][^:]*):", text, re.MULTILINE)]
    assert len(keys) == len(set(keys)) == len(entries(table))


def test_there_is_advice_for_most_of_what_happens():
    assert len({key.partition("/")[0] for key in (*BREAKS, *SKIPS)}) >= 40


def test_every_id_is_one_of_torchs():
    known = registered_ids()
    if not known:
        pytest.skip("torch is not installed")
    assert {key.partition("/")[0] for key in BREAKS if key.startswith("GB")} <= {*known, *known_ids()}


def test_every_entry_has_a_title_and_says_why_and_what_to_do():
    for key, entry in ALL.items():
        assert all((entry.title, entry.why, entry.fix)), key
        assert entry.shows in ("", "explanation", "context"), key


def test_a_title_is_a_phrase():
    for key, entry in ALL.items():
        for text in (entry.title, entry.it):
            assert text == " ".join(text.split()), key
            assert not text.endswith("."), key


def test_advice_is_made_of_plain_sentences():
    for key, entry in ALL.items():
        for text in sentences(entry):
            assert text == " ".join(text.split()), key
            assert text.endswith("."), key
            assert text[0].isupper() or text.startswith("{it}"), key


def test_a_switch_has_a_risk():
    for key, entry in ALL.items():
        assert bool(entry.switch) == bool(entry.risk), key
        assert not entry.switch or entry.switch.startswith("torch."), key


def test_before_and_after_come_together_and_are_code():
    for key, entry in ALL.items():
        assert bool(entry.before) == bool(entry.after), key
        assert not entry.before or entry.before != entry.after, key
        assert entry.before == entry.before.lstrip(), key
        for code in filter(None, (entry.before, entry.after)):
            (function,) = ast.parse(f"def forward(x):\n{textwrap.indent(code, '    ')}").body
            assert isinstance(function, ast.FunctionDef), key


def test_the_only_thing_to_fill_in_is_it():
    for key, entry in ALL.items():
        if key.startswith("attention:"):  # has names of its own; test_attention.py fills them in
            continue
        for text in (entry.title, entry.it, entry.switch, *sentences(entry)):
            assert set(re.findall(r"\{[^}]*\}", text)) <= {"{it}"} | (
                {"{method}"} if text == entry.switch else set()
            ), key
        assert "{it}" not in entry.title + entry.it + entry.switch + entry.risk + entry.expected, key


@pytest.mark.parametrize("expression", ["x.item()", ""])
def test_it_is_the_users_expression_or_what_it_is_called(expression: str):
    for key, entry in ALL.items():
        about = entry.about(expression)
        named = f"`{expression}`" if expression else entry.it
        assert "{it}" not in about.why + about.fix, key
        assert named.lower() in about.why.lower() or "{it}" not in entry.why, key
        assert about.why[0] == about.why[0].upper(), key
        assert about.fix[0] == about.fix[0].upper(), key
        assert (about.title, about.before, about.after) == (entry.title, entry.before, entry.after), key


def test_every_kind_of_cause_has_advice_and_nothing_else_has():
    assert {key.partition("/")[0] for key in CAUSES} == CAUSE_KINDS
    assert set(CAUSES) >= CAUSE_KINDS


def test_every_kind_of_cause_has_an_example():
    assert {key.partition("/")[0] for key, entry in CAUSES.items() if entry.before} == CAUSE_KINDS


@pytest.mark.parametrize("part", ["title", "before"])
def test_no_two_causes_are_the_same(part: str):
    texts = [text for entry in CAUSES.values() if (text := getattr(entry, part))]
    assert len(texts) == len(set(texts))


def test_examples_fit_on_a_narrow_screen():
    for key, entry in CAUSES.items():
        for line in (entry.before + entry.after).splitlines():
            assert len(line) <= 80 - len("   before │ "), key


def test_a_mode_is_expected():
    assert all(CAUSES[kind].expected for kind in ("training_mode", "grad_mode", "autocast"))


@pytest.mark.parametrize(
    ("kind", "case", "key"),
    [
        ("size", "", "size"),
        ("size", "parameter", "size/parameter"),
        ("size", "no such case", "size"),
        ("dtype", "parameter", "dtype"),
        ("no such kind", "", "other"),
        ("no such kind", "nan", "other"),
        ("other", "nan", "other/nan"),
    ],
)
def test_advice_on_a_cause_is_that_of_its_case_or_kind(kind: str, case: str, key: str):
    assert advice_on_cause(kind, case) is CAUSES[key]


@pytest.mark.parametrize(
    ("gb", "kind", "key"),
    [
        (("GB0170",), "", "GB0170"),
        (("GB0170",), "if", "GB0170"),
        (("GB0170",), "assert", "GB0170/assert"),
        (("GB0124",), "assert", "GB0124"),
        (("GB0124",), "if", "GB0124/if"),
        (("GB0059",), "print", "print"),
        (("GB9999",), "print", "print"),
        ((), "clock", "clock"),
        (("GB9999", "GB0124"), "", "GB0124"),
        (("GB9999", "GB0170"), "while", "GB0170/while"),
    ],
)
def test_the_more_special_advice_goes_first(gb: tuple[str, ...], kind: str, key: str):
    assert advice_on_break(gb, kind) is BREAKS[key]


@pytest.mark.parametrize(("gb", "kind"), [((), ""), (("GB9999",), ""), (("GB9999",), "while"), ((), "format")])
def test_on_other_breaks_there_is_none(gb: tuple[str, ...], kind: str):
    assert advice_on_break(gb, kind) is None


def test_tables_are_read_once():
    assert entries("breaks") is BREAKS
    assert entries("causes") is CAUSES
