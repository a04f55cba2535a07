"""`ctrace recompiles --explain` on screen."""

import pytest

from ctrace.inspector.advice import Entry
from ctrace.inspector.views.lessons import CauseLesson
from ctrace.reports.terminal.lessons import cause_lesson_screen
from tests.golden import WIDTHS, assert_golden, drawn
from tests.sessions import HOSTILE_TEXT

SIZE = Entry(
    title="a size that changed",
    why="An earlier call compiled the size in as a constant; torch compiles again when it changes.",
    fix="Mark the dimension before the first call.",
    before="@torch.compile\ndef f(x):\n    return x * 2\n\nf(torch.ones(4))\n",
    after="x = torch.ones(4)\ntorch._dynamo.mark_dynamic(x, 0)\nf(x)\n",
    switch='torch.compiler.set_stance("eager_then_compile")',
    risk="The first call of each function runs in eager.",
    expected="The first change of a size compiles once more.",
)
GONE = Entry("an object that no longer exists", "Torch threw that code away.", "Keep the object.")
HOSTILE = Entry(*(HOSTILE_TEXT,) * 3, "it", *(HOSTILE_TEXT,) * 4, "", HOSTILE_TEXT)
LESSONS = {
    "size": CauseLesson("size", SIZE, (("size/gone", GONE), ("size/again", SIZE))),
    "hostile": CauseLesson(HOSTILE_TEXT, HOSTILE, ((HOSTILE_TEXT, HOSTILE),)),
}


def _screen(lesson: CauseLesson, width: int = 80) -> str:
    return drawn(cause_lesson_screen(lesson), width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LESSONS)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"cause-lesson-{name}-{width}.txt", _screen(LESSONS[name], width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LESSONS)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(LESSONS[name], width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(LESSONS["hostile"])


def test_what_is_normal_is_said_where_it_is() -> None:
    assert _screen(LESSONS["size"]).count("Normal: ") == 2
    assert "Normal: " not in _screen(CauseLesson("identity/gone", GONE))
