"""`ctrace breaks --explain` on screen."""

import pytest

from ctrace.inspector.advice import Entry, entries
from ctrace.inspector.registry import Registered
from ctrace.inspector.views.lessons import Lesson
from ctrace.reports.terminal.breaks import lesson_screen
from tests.golden import WIDTHS, assert_golden, drawn
from tests.sessions import HOSTILE_TEXT

BRANCH = Entry(
    title="a branch on a tensor's value",
    why="Python branches on a tensor's value, which is known only when the graph has run.",
    fix="Compute both sides and choose with torch.where, or use torch.cond.",
    before="if x.sum() > 0:\n    x = x * 2\nreturn x\n",
    after="return torch.where(x.sum() > 0, x * 2, x)\n",
    switch="torch._dynamo.config.capture_scalar_outputs = True",
    risk="The number becomes an unbacked symbol.",
)
ASSERT = Entry("an assert on a tensor's value", "The assert needs it in Python.", "Use torch._assert_async.")
TOLD = Registered("GB0170", "Data-dependent branching", "Dynamo does not support …", ("Use `torch.cond`.", "Or not."))
HOSTILE = Entry(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, "it", HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT)
LESSONS = {
    "branch": Lesson("GB0170", BRANCH, (("assert", ASSERT), ("while", ASSERT)), TOLD),
    "torch": Lesson("GB9999", None, (), TOLD),
    "hostile": Lesson(
        HOSTILE_TEXT,
        HOSTILE,
        (("assert", HOSTILE),),
        Registered(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, (HOSTILE_TEXT,)),
    ),
}


def _screen(lesson: Lesson, width: int = 80) -> str:
    return drawn(lesson_screen(lesson), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LESSONS)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"lesson-{name}-{width}.txt", _screen(LESSONS[name], width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LESSONS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(LESSONS[name], width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(LESSONS["hostile"])


def test_each_case_says_what_the_users_code_is() -> None:
    screen = _screen(LESSONS["branch"])
    assert "Where it is an assert" in screen
    assert "Where it is a while loop" in screen


@pytest.mark.parametrize("case", sorted({key.partition("/")[2] for key in entries("breaks") if "/" in key}))
def test_every_case_of_ours_has_a_name(case: str) -> None:
    assert f"Where it is {case}\n" not in _screen(Lesson("GB0170", BRANCH, ((case, ASSERT),)))


def test_without_torchs_words_there_are_none() -> None:
    assert "In torch's own words" not in _screen(Lesson("loop", BRANCH))
    assert "In torch's own words" in _screen(LESSONS["torch"])
