"""The result of a check as Markdown."""

import re

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from msgspec.structs import replace

from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.reports.gate.gate_markdown import render_table
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import assert_golden
from tests.support.sampling import examples, sampled

_READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_OURS = re.compile(r"</?(details|summary|sub|code)>")


def _assert_harmless(report: str) -> None:
    """Fail if text became markup: a tag, a link, an image, a mention or another cell."""
    for token in _READER.parse(report):
        for each in [token, *(token.children or [])]:
            assert each.type not in ("link_open", "image", "fence", "code_block", "hr")
            if each.type in ("html_inline", "html_block"):
                assert not re.sub(r"\d+ jobs?", "", _OURS.sub("", each.content)).strip()
            elif each.type == "text":
                assert not re.search(r"@\w|#\d|://|\bwww\.", each.content)


def _rows(report: str) -> list[int]:
    """Count the cells of each row as GitHub does: a bar after a backslash does not end a cell."""
    return [len(re.sub(r"\\[^\w\s]", "", line).split("|")) - 2 for line in report.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("name", outcomes.ALL)
def test_report(name: str) -> None:
    assert_golden(f"check-{name}.md", render_table(outcomes.ALL[name]))


def test_a_change_reads_like_a_sentence() -> None:
    row = "| new graph break (+1 GB0170 models/mask.py::Mask.forward) `if is_pad.any(): # padded?` splits 2 graphs into 3, 14 ops now in eager |"
    assert row in render_table(outcomes.WORSE)


def test_improvements_are_rows_too() -> None:
    assert "| -1 GB0059 models/a.py::A.forward |" in render_table(outcomes.BETTER)


@pytest.mark.parametrize("name", outcomes.ALL)
def test_foreign_text_is_not_markup(name: str) -> None:
    _assert_harmless(render_table(outcomes.ALL[name]))


@given(ANY)
@settings(max_examples=examples(150), deadline=None)
def test_any_foreign_text_is_not_markup(text: str) -> None:
    report = render_table(full_of(text))
    report.encode()
    _assert_harmless(report)
    assert set(_rows(report)) == {4, 7}


@pytest.mark.parametrize("text", ["a|b", "a\\|b", "a\\\\|b", "`|`", "\\`|\\`"])
def test_a_bar_does_not_end_a_cell(text: str) -> None:
    assert set(_rows(render_table(full_of(text)))) == {4, 7}


def _huge(text: str) -> CheckOutcome:
    many = [
        replace(outcomes.BRANCH, key=replace(outcomes.BRANCH.key, text=f"{number}{text}"), source="")
        for number in range(2000)
    ]
    found = outcomes.only(*map(outcomes.new_site, many), better=(text,) * 500)
    jobs = tuple(outcomes.holding(f"m{number}{text}.py") for number in range(2000))
    return replace(found, checked=(*found.checked, *jobs), notes=(text,) * 2000)


@pytest.mark.parametrize("text", sampled(["x" * 20, "|\\" * 400, "@" * 400, "x" * 9000]))
def test_a_report_fits_a_comment_and_counts_omitted_lines(text: str) -> None:
    report = render_table(_huge(text))
    assert len(report) <= 60_000, "GitHub takes 65,536 characters in a comment"
    shown = sum("+1 GB0170" in line for line in report.splitlines())
    assert f"and {2500 - shown} more changes: see the output of `ctrace check`" in report
    assert re.search(r"and \d+ more notes", report)
    assert re.search(r"and \d+ more jobs", report)
    assert report.count("<details>") == report.count("</details>") == 1
