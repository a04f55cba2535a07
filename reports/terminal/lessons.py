"""`ctrace recompiles --explain` on screen: a kind of cause, without a run."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.advice import Entry
from ctrace.inspector.findings import Advice
from ctrace.inspector.views.lessons import CauseLesson
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import example, fix, hanging, section


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
