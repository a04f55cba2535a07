"""`ctrace diff` on screen and as Markdown, on recorded pairs."""

from functools import cache

import pytest

from ctrace.inspector.features.compare.changes import Change, ChangeKind, DiffDocument, RunDiff, What
from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.inspector.runs.load import load_log
from ctrace.reports.diff_markdown import render_diff_markdown
from ctrace.reports.terminal.diff_screen import diff_screen
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.places import DATA
from tests.support.poison import UNSEEN


@cache
def pair(before: str, after: str) -> RunDiff:
    return compare(*(load_log(DATA / "diff" / f"{name}.log.gz") for name in (before, after)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("after", ["seed", "broken", "double"])
def test_screen(after: str, width: int) -> None:
    shown = drawn(diff_screen(DiffDocument("before", "after", pair("base", after)), all_of_it=False), width)
    assert_golden(f"diff-{after}-{width}.txt", shown)


@pytest.mark.parametrize("width", WIDTHS)
def test_whole_screen(width: int) -> None:
    shown = drawn(diff_screen(DiffDocument("before", "after", pair("base", "one_op_more")), all_of_it=True), width)
    assert_golden(f"diff-all-{width}.txt", shown)


def test_equal_runs_are_one_line_where_it_fits() -> None:
    shown = drawn(diff_screen(DiffDocument("before", "after", pair("base", "seed")), all_of_it=False), 400)
    assert len(shown.splitlines()) == 1
    assert shown.startswith("EQUAL  before → after  No differences in verdict, ")


def test_markdown() -> None:
    assert_golden("diff-broken.md", render_diff_markdown(DiffDocument("before", "after", pair("base", "broken"))))


def test_foreign_text_cannot_control_the_terminal() -> None:
    change = Change(What.KERNEL, ChangeKind.CHANGED, UNSEEN, UNSEEN, UNSEEN, ("---", "+++", UNSEEN, f"+{UNSEEN}"))
    found = RunDiff((change,), notes=(UNSEEN,), not_compared=((What.TIME, UNSEEN),))
    for all_of_it in (False, True):
        shown = drawn(diff_screen(DiffDocument(UNSEEN, UNSEEN, found), all_of_it=all_of_it), 80)
        assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())
    text = render_diff_markdown(DiffDocument(UNSEEN, UNSEEN, found))
    assert not any(letter in text for letter in UNSEEN if not letter.isprintable())
