"""The Markdown report."""

import re

import pytest

from ctrace.reports.markdown import render_markdown
from tests import sessions
from tests.golden import assert_golden


@pytest.mark.parametrize("name", sessions.ALL)
def test_report(name: str) -> None:
    assert_golden(f"{name}.md", render_markdown(sessions.ALL[name]))


def test_foreign_text_is_no_markup() -> None:
    text = re.sub(r"(`+).+?\1(?!`)", "", render_markdown(sessions.HOSTILE))  # code spans show text as it is
    assert "<b>" not in text
    assert "</script>" not in text


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
