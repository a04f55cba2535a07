"""Screens of `--explain`: a kind of graph break or recompilation cause, without a run."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.advice import Entry
from ctrace.inspector.breaks.lessons import CauseLesson, Lesson
from ctrace.inspector.breaks.registry import Registered
from ctrace.inspector.model.findings import Advice
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import example, fix, hanging, section


def lesson_screen(lesson: Lesson) -> Iterator[RenderableType]:
    """Explain a kind of graph break or skip."""
    entry, registered = lesson.entry, lesson.torch
    title = entry.title if entry else registered.title if registered else ""
    yield Text.assemble((fmt.plain(lesson.name), "bold"), f"  {fmt.plain(title)}")
    if entry is not None:
        yield from _entry(entry)
    for case, special in lesson.cases:
        yield section(f"If it is {_CASES.get(case, fmt.plain(special.title))}")
        yield from _entry(special)
    if registered is not None:
        yield from _in_torch_words(registered)


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
    yield from _entry(lesson.entry)
    for name, special in lesson.cases:
        yield section(f"{fmt.plain(name)}: {fmt.plain(special.title)}")
        yield from _entry(special)


def _entry(entry: Entry) -> Iterator[RenderableType]:
    yield hanging(entry.why)
    if entry.expected:
        yield hanging(f"Expected: {entry.expected}")
    yield fix(entry.fix)
    yield from example(Advice(entry.before, entry.after, entry.switch, entry.risk))


def _in_torch_words(registered: Registered) -> Iterator[RenderableType]:
    yield section("In torch's own words")
    yield hanging(registered.title)
    if registered.explanation:
        yield hanging(registered.explanation)
    for hint in registered.hints:
        yield hanging(f"Hint: {hint}")
