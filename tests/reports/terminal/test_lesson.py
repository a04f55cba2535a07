"""`--explain` on screen: a kind of graph break or of recompilation cause."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.findings.breaks.advice_lookup import CauseCase, CauseLesson, Lesson, Registered
from ctrace.inspector.knowledge.advice import AdviceEntry, Lifetime, Unadvised, entries
from ctrace.reports.terminal.findings_screen import cause_lesson_screen, lesson_screen
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.sessions import HOSTILE_TEXT

BRANCH = AdviceEntry(
    title="a branch on a tensor's value",
    why="Python branches on a tensor's value, which is known only when the graph has run.",
    fix="Compute both sides and select with torch.where, or use torch.cond.",
    before="if x.sum() > 0:\n    x = x * 2\nreturn x\n",
    after="return torch.where(x.sum() > 0, x * 2, x)\n",
    switch="torch._dynamo.config.capture_scalar_outputs = True",
    risk="The number becomes an unbacked symbol.",
)
ASSERT = AdviceEntry("an assert on a tensor's value", "The assert needs it in Python.", "Use torch._assert_async.")
TOLD = Registered("GB0170", "Data-dependent branching", "Dynamo does not support …", ("Use `torch.cond`.", "Or not."))
HOSTILE = AdviceEntry(
    HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, "it", HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT
)
LESSONS = {
    "branch": Lesson("GB0170", BRANCH, {"assert": ASSERT, "while": ASSERT}, TOLD),
    "torch": Lesson("GB9999", None, {}, TOLD),
    "hostile": Lesson(
        HOSTILE_TEXT,
        HOSTILE,
        {"assert": HOSTILE},
        Registered(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, (HOSTILE_TEXT,)),
    ),
}
SIZE = AdviceEntry(
    title="a size that changed",
    why="An earlier call compiled the size in as a constant; torch compiles again when it changes.",
    fix="Mark the dimension before the first call.",
    before="@torch.compile\ndef f(x):\n    return x * 2\n\nf(torch.ones(4))\n",
    after="x = torch.ones(4)\ntorch._dynamo.mark_dynamic(x, 0)\nf(x)\n",
    switch='torch.compiler.set_stance("eager_then_compile")',
    risk="The first call of each function runs in eager.",
    expected="The first change of a size compiles once more.",
)
GONE = AdviceEntry("an object that no longer exists", "Torch threw that code away.", "Keep the object.")
HOSTILE_CAUSE = AdviceEntry(*(HOSTILE_TEXT,) * 3, "it", *(HOSTILE_TEXT,) * 4, "", HOSTILE_TEXT)
CAUSES = {
    "cause-lesson-size": CauseLesson("size", SIZE, {"size/gone": CauseCase(GONE), "size/again": CauseCase(SIZE)}),
    "cause-lesson-hostile": CauseLesson(HOSTILE_TEXT, HOSTILE_CAUSE, {HOSTILE_TEXT: CauseCase(HOSTILE_CAUSE)}),
}
ALL: dict[str, Lesson | CauseLesson] = {**{f"lesson-{name}": lesson for name, lesson in LESSONS.items()}, **CAUSES}


def _screen(lesson: Lesson | CauseLesson, width: int = 80) -> str:
    shown = lesson_screen(lesson) if isinstance(lesson, Lesson) else cause_lesson_screen(lesson)
    return drawn(shown, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"{name}-{width}.txt", _screen(ALL[name], width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(ALL[name], width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\r"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in _screen(LESSONS["hostile"])
    assert letter not in _screen(CAUSES["cause-lesson-hostile"])


def test_each_case_describes_the_users_code() -> None:
    screen = _screen(LESSONS["branch"])
    assert "If it is an assert" in screen
    assert "If it is a while loop" in screen


@pytest.mark.parametrize("case", sorted({key.partition("/")[2] for key in entries("breaks") if "/" in key}))
def test_every_case_has_a_name(case: str) -> None:
    assert f"Where it is {case}\n" not in _screen(Lesson("GB0170", BRANCH, {case: ASSERT}))


def test_without_torchs_text_none_is_shown() -> None:
    assert "In torch's own words" not in _screen(Lesson("loop", BRANCH))
    assert "In torch's own words" in _screen(LESSONS["torch"])


def test_without_advice_the_screen_says_why() -> None:
    why = Unadvised("internal", "A tensor in the graph has no example value.")
    screen = _screen(Lesson("GB0027", None, {}, TOLD, why))
    assert "ctrace has no advice for this one: a tensor in the graph has no example value." in " ".join(screen.split())
    named = Unadvised("plain", "NumPy is not installed.")
    assert "for this one: NumPy is not" in _screen(Lesson("GB0106", None, {}, TOLD, named))
    assert "newer than ctrace's list" in _screen(LESSONS["torch"])


def test_an_id_of_another_torch_names_its_versions() -> None:
    screen = _screen(Lesson("GB9193", BRANCH, version="2.13", lifetime=Lifetime("2.15")))
    assert "Not in torch 2.13: torch 2.15 and newer have it." in screen
    old = _screen(Lesson("GB0089", BRANCH, {}, TOLD, version="2.15", lifetime=Lifetime("2.11", raised_until="2.13")))
    assert "Torch raised this id until 2.13; its registry still lists it." in " ".join(old.split())


def test_an_example_for_one_torch_names_it() -> None:
    assert "on torch 2.15 (tried on 2.13 and 2.15)" in _screen(Lesson("GB9193", replace(BRANCH, breaks_on="2.15")))


def test_normal_behavior_is_described_where_it_occurs() -> None:
    assert _screen(CAUSES["cause-lesson-size"]).count("Expected: ") == 2
    assert "Expected: " not in _screen(CauseLesson("identity/gone", GONE))
