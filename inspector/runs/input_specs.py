"""Parse inputs: `float32[8,128]`, `mask=bool[8,n]`, `0.5`; and `--vary 0=1,2,3` or `--vary dtype=float64`.

The capture creates the values.

Parse `--assume "model.py:31:12=True,False"`: what a value is that does not exist under `--fake`.
"""

import ast
import difflib
import math
import re
from pathlib import PurePath

from msgspec import Struct

from ctrace.inspector.errors import TargetError, did_you_mean

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
CHOICES = {
    "dtype": ("float64", "float32", "float16", "bfloat16"),
    "stride": ("transposed", "noncontiguous", "channels_last"),
    "mode": ("train", "eval"),
    "grad": ("off", "on", "inference"),
    "requires_grad": ("on", "off"),
}
"""What `--vary` can change besides sizes: the possible values, keyed by word."""
_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\]")
_KEYWORD = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?!=)(?P<value>.*)", re.DOTALL)
# Longer numbers exceed 64 bits, and with them every size that torch takes.
_DIGITS = 18
_EXAMPLE = 'write a tensor as "float32[8,128]" (a letter makes a dimension dynamic), anything else as a Python literal'


class TensorInput(Struct, frozen=True):
    """A random tensor; a letter in `sizes` is a dynamic dimension."""

    dtype: str
    sizes: tuple[int | str, ...]


class LiteralInput(Struct, frozen=True):
    """A Python value."""

    value: object


class InputSpec(Struct, frozen=True):
    """One argument; positional if it has no name."""

    name: str | None
    value: TensorInput | LiteralInput


class Vary(Struct, frozen=True):
    """A dimension and its sizes, one scenario each."""

    dimension: int
    sizes: tuple[int, ...]


class InputChoice(Struct, frozen=True):
    """One of `CHOICES` and its values, one scenario each."""

    what: str
    values: tuple[str, ...]


def parse_input(text: str) -> InputSpec:
    """Parse one `--input`.

    Raises:
        TargetError: it is neither a tensor nor a literal.
    """
    name, value = None, text.strip()
    if keyword := _KEYWORD.fullmatch(value):
        name, value = keyword["name"], keyword["value"].strip()
    tensor = _TENSOR.fullmatch(value)
    if tensor is not None:
        return InputSpec(name, TensorInput(_dtype(tensor["dtype"], text), _sizes(tensor["sizes"], text)))
    try:
        return InputSpec(name, LiteralInput(ast.literal_eval(value)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise TargetError(f"--input {text!r} cannot be read", _EXAMPLE) from None


def _dtype(name: str, text: str) -> str:
    if name in DTYPES:
        return name
    todo = did_you_mean(name, DTYPES, f"known ones: {', '.join(DTYPES)}")
    raise TargetError(f"--input {text!r}: there is no dtype {name!r}", todo)


def _sizes(text: str, whole: str) -> tuple[int | str, ...]:
    sizes: list[int | str] = []
    for part in (piece.strip() for piece in text.split(",") if text.strip()):
        if part.isdecimal() and len(part) <= _DIGITS:
            sizes.append(int(part))
        elif part.isidentifier():
            sizes.append(part)
        else:
            raise TargetError(f"--input {whole!r}: {part!r} is not a size", _EXAMPLE)
    return tuple(sizes)


def parse_vary(text: str) -> Vary | InputChoice:
    """Parse one `--vary`, `DIM=SIZE,SIZE,...` or `WORD=VALUE,VALUE,...`.

    Raises:
        TargetError: the form, the word or a value is invalid.
    """
    what, equals, values = (part.strip() for part in text.partition("="))
    if what in CHOICES and equals:
        return InputChoice(what, tuple(_chosen(what, value.strip(), text) for value in values.split(",")))
    try:
        if equals:
            return Vary(int(what), tuple(_natural(size) for size in values.split(",")))
    except ValueError:
        pass
    near = difflib.get_close_matches(what, CHOICES, 1) if equals else []
    if near:
        raise TargetError(f"--vary {text!r}: cannot vary {what!r}", f"did you mean {near[0]}?")
    todo = f'write the dimension and its sizes, as in --vary "0=1,2,8", or one of {", ".join(CHOICES)}'
    raise TargetError(f"--vary {text!r} cannot be read", todo)


def _chosen(what: str, value: str, text: str) -> str:
    known = CHOICES[what]
    if value in known:
        return value
    todo = did_you_mean(value, known, f"known ones: {', '.join(known)}")
    raise TargetError(f"--vary {text!r}: {what} cannot be {value!r}", todo)


def _natural(text: str) -> int:
    size = int(text)
    if size < 0:
        raise ValueError(text)
    return size


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
            if re.fullmatch(r"[+-]?[0-9]{1,18}", word):
                return int(word)
            return number
    except ValueError:
        pass
    raise TargetError(f"--assume {text}: {word!r} is neither a number nor True or False", _TODO)
