"""What reading a change leaves open: only the author knows it, and no call of a trial shows it."""

from ctrace.inspector.source.absent_values import absent_values
from ctrace.inspector.source.cut_slices import cut_slices
from ctrace.inspector.source.made_devices import made_on_cpu
from ctrace.inspector.source.other_objects import other_objects


def open_questions(before: str, after: str) -> tuple[str, ...]:
    """Return questions about a change of a file, given its text before and after."""
    readings = (absent_values, made_on_cpu, cut_slices, other_objects)
    return tuple(question for reading in readings for question in reading(before, after))
