"""The Markdown report."""

import re

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.reports.markdown import render_markdown
from tests.support import sessions
from tests.support.golden import assert_golden


@pytest.mark.parametrize("name", sessions.ALL)
def test_report(name: str) -> None:
    assert_golden(f"{name}.md", render_markdown(sessions.ALL[name]))


def test_foreign_text_is_not_markup() -> None:
    text = re.sub(r"(`+).+?\1(?!`)", "", render_markdown(sessions.HOSTILE))  # code spans show text as it is
    assert "<b>" not in text
    assert "</script>" not in text


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("`a_b` turns <it> into *c*.", "`a_b` turns &lt;it&gt; into \\*c\\*."),
        ("Guard with `if not x|y`.", "Guard with `if not x\\|y`."),
        ("one ` alone, a_b", "one \\` alone, a\\_b"),
        ("`a` and `b` and `c", "`a` and `b` and \\`c"),
        ('remove `print(f"`{x}`")`, or a_b', 'remove `` print(f"`{x}`") ``, or a\\_b'),
        ('`print(f"{x}`")` writes', '`` print(f"{x}`") `` writes'),
        ("`f(x` and `g(y)`", "`f(x` and `g(y)`"),
        ("`f(x`, cut; `y`, and `z`.", "`f(x`, cut; `y`, and `z`."),
    ],
)
def test_code_in_our_sentences_stays_code(reason: str, shown: str) -> None:
    report = render_markdown(Session(breaks=(sessions.bare_break(reason=reason),)))
    assert f"| {shown} | " in report


def test_the_costliest_break_goes_first() -> None:
    report = render_markdown(sessions.PARTIAL)
    assert report.index("| `model.py:24 GB0098` |") < report.index("| `model.py:10 GB0059` |")
    assert "| 6 ops in eager |" in report


def test_what_to_do_and_why_come_before_all_findings() -> None:
    report = render_markdown(sessions.PARTIAL)
    places = [report.index(part) for part in ("**What to do**", "| cause |", "| graph break |", "| fact |")]
    assert places == sorted(places)


def test_every_row_of_a_table_has_its_columns() -> None:
    width = 0
    for line in render_markdown(sessions.HOSTILE).splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        if not line.startswith("|"):
            width = 0
        elif width:
            assert cells == width, line
        else:
            width = cells
