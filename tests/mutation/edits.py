"""All edits of model files."""

from tests.mutation.harmful import HARMFUL
from tests.mutation.harmless import HARMLESS, RENAME_FILE
from tests.mutation.partial import BEYOND_AGAIN, ELSEWHERE, PARTIAL_HARMFUL, PARTIAL_HARMLESS
from tests.mutation.shapes import Edit, Files, Shape, shape_of

__all__ = [
    "BEYOND_AGAIN",
    "ELSEWHERE",
    "HARMFUL",
    "HARMLESS",
    "PARTIAL_HARMFUL",
    "PARTIAL_HARMLESS",
    "RENAME_FILE",
    "Edit",
    "Files",
    "Shape",
    "named",
    "shape_of",
]


def named(name: str) -> Edit:
    """Find an edit."""
    every = (*HARMFUL, *HARMLESS, *PARTIAL_HARMFUL, *PARTIAL_HARMLESS)
    return next(each for each in every if each.name == name)
