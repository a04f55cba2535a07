"""Parse `--assume "model.py:31:12=True,False"`: what a value is that does not exist under `--fake`."""

import math
import re
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.errors import TargetError

_FORM = re.compile(r"(?P<file>[^=]+?):(?P<line>[0-9]{1,9})(?::(?P<column>[0-9]{1,9}))?=(?P<values>.+)")
_TODO = 'write FILE:LINE=VALUES or FILE:LINE:COLUMN=VALUES, as in --assume "model.py:31:12=True,False"'


class Assumption(Struct, frozen=True):
    """The values of an expression, one for each call of the model; the last one also serves all later calls."""

    file: str
    line: int
    column: int | None
    values: tuple[bool | int | float, ...]

    def is_at(self, file: str, line: int, column: int | None) -> bool:
        """Whether a place is the one meant: the path may leave out folders, and the assumption the column."""
        parts, wanted = PurePath(file).parts, PurePath(self.file).parts
        is_column = self.column is None or column is None or self.column == column
        return line == self.line and is_column and parts[-len(wanted) :] == wanted


def parse_assumption(text: str) -> Assumption:
    """Parse one `--assume`.

    Raises:
        TargetError: it has another form, or a value is neither a number nor True or False.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise TargetError(f"--assume {text}: not a place with values", _TODO)
    values = tuple(_value(each.strip(), text) for each in match["values"].split(","))
    column = None if match["column"] is None else int(match["column"])
    return Assumption(match["file"], int(match["line"]), column, values)


def _value(word: str, text: str) -> bool | int | float:
    if word in ("True", "False"):
        return word == "True"
    try:
        number = float(word)
        if math.isfinite(number):
            return int(word) if re.fullmatch(r"[+-]?[0-9]{1,18}", word) else number
    except ValueError:
        pass
    raise TargetError(f"--assume {text}: {word!r} is neither a number nor True or False", _TODO)
