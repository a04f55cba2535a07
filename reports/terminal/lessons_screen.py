"""Screens of `--explain`: a kind of graph break or recompilation cause, without a run."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.findings.breaks.lessons import CauseLesson, Lesson, Registered
from ctrace.inspector.knowledge.advice import AdviceEntry
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import example, fix, hanging, section


def lesson_screen(lesson: Lesson) -> Iterator[RenderableType]:
    """Explain a kind of graph break or skip."""
    entry, registered = lesson.entry, lesson.torch
    titled = entry or registered
    title = fmt.plain(titled.title) if titled else ""
    yield Text.assemble((fmt.plain(lesson.name), "bold"), f"  {title}" if title else "")
    if lesson.absence:
        yield hanging(f"Not in torch {lesson.version}: {lesson.absence}.")
    if entry is not None:
        yield from _entry(entry)
        yield from _example_versions(entry)
        if lesson.lifetime is not None and lesson.lifetime.raised_until:
            yield hanging(lesson.lifetime.retirement())
    else:
        yield hanging(no_advice(lesson))
    for case, special in lesson.cases.items():
        yield section(f"If it is {_CASES.get(case, fmt.plain(special.title))}")
        yield from _entry(special)
    if registered is not None:
        yield from _in_torch_words(registered)


def no_advice(lesson: Lesson) -> str:
    """Say that ctrace has no advice for a gb id, and why."""
    if lesson.unadvised is None:
        return "ctrace has no advice for this one: it is newer than ctrace's list, which ends with torch 2.15."
    return f"ctrace has no advice for this one: {_decapitalized(lesson.unadvised.line)}"


def _decapitalized(line: str) -> str:
    """Make the first letter lower case, for use after a colon; keep names such as NumPy and __init__."""
    first = line.partition(" ")[0]
    if first == "A" or first[1:].islower():
        return line[0].lower() + line[1:]
    return line


def _example_versions(entry: AdviceEntry) -> Iterator[RenderableType]:
    if entry.breaks_on:
        yield hanging(f"The example breaks with this id on torch {entry.breaks_on} (tried on 2.13 and 2.15).")


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
    for name, special in lesson.cases.items():
        yield section(f"{fmt.plain(name)}: {fmt.plain(special.entry.title)}")
        yield from _entry(special.entry)


def _entry(entry: AdviceEntry) -> Iterator[RenderableType]:
    yield hanging(entry.why)
    if entry.expected:
        yield hanging(f"Expected: {entry.expected}")
    yield fix(entry.fix)
    yield from example(entry.advice)


def _in_torch_words(registered: Registered) -> Iterator[RenderableType]:
    yield section("In torch's own words")
    yield hanging(registered.title)
    if registered.explanation:
        yield hanging(registered.explanation)
    for hint in registered.hints:
        yield hanging(f"Hint: {hint}")
