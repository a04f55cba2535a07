"""`--explain` on screen: a kind of break, or of cause of a recompile, without a run."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.advice import Entry
from ctrace.inspector.breaks.lessons import CauseLesson, Lesson
from ctrace.inspector.breaks.registry import Registered
from ctrace.inspector.model.findings import Advice
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import example, fix, hanging, section


def lesson_screen(lesson: Lesson) -> Iterator[RenderableType]:
    """Explain a kind of break or skip, without a run."""
    entry, told = lesson.entry, lesson.torch
    title = entry.title if entry else told.title if told else ""
    yield Text.assemble((fmt.plain(lesson.name), "bold"), f"  {fmt.plain(title)}")
    if entry is not None:
        yield from _taught(entry)
    for case, special in lesson.cases:
        yield section(f"Where it is {_CASES.get(case, fmt.plain(special.title))}")
        yield from _taught(special)
    if told is not None:
        yield from _told(told)


_CASES = {
    "assert": "an assert",
    "check": "a check that only raises",
    "while": "a while loop",
    "ternary": "a conditional expression",
    "cast": "int(), float() or bool() of a tensor",
    "if": "an if",
}


def cause_lesson_screen(lesson: CauseLesson) -> Iterator[RenderableType]:
    """Explain a kind of cause and its special cases."""
    yield Text.assemble((fmt.plain(lesson.name), "bold"), f"  {fmt.plain(lesson.entry.title)}")
    yield from _taught(lesson.entry)
    for name, special in lesson.cases:
        yield section(f"{fmt.plain(name)}: {fmt.plain(special.title)}")
        yield from _taught(special)


def _taught(entry: Entry) -> Iterator[RenderableType]:
    yield hanging(entry.why)
    if entry.expected:
        yield hanging(f"Normal: {entry.expected}")
    yield fix(entry.fix)
    yield from example(Advice(entry.before, entry.after, entry.switch, entry.risk))


def _told(told: Registered) -> Iterator[RenderableType]:
    yield section("In torch's own words")
    yield hanging(told.title)
    if told.explanation:
        yield hanging(told.explanation)
    for hint in told.hints:
        yield hanging(f"Hint: {hint}")
