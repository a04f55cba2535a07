"""Inputs as text: `float32[8,128]`, `mask=bool[8,n]`, `0.5`; and `--vary 0=1,2,3`. Parsed here, made in the capture."""

import ast
import difflib
import re
from dataclasses import dataclass

from ctrace.inspector.errors import TargetError

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\]")
_KEYWORD = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?!=)(?P<value>.*)", re.DOTALL)
_DIGITS = 18
_EXAMPLE = 'write a tensor as "float32[8,128]" (a letter makes a dimension dynamic), anything else as a Python literal'


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A random tensor to make; a letter in `sizes` is a dynamic dimension."""

    dtype: str
    sizes: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class LiteralInput:
    """A Python value."""

    value: object


@dataclass(frozen=True, slots=True)
class Input:
    """One argument; positional when it has no name."""

    name: str | None
    value: TensorInput | LiteralInput


@dataclass(frozen=True, slots=True)
class Vary:
    """A dimension and the sizes it takes, one scenario each."""

    dimension: int
    sizes: tuple[int, ...]


def parse_input(text: str) -> Input:
    """Read one `--input`.

    Raises:
        TargetError: it is neither a tensor nor a literal.
    """
    name, value = None, text.strip()
    if keyword := _KEYWORD.fullmatch(value):
        name, value = keyword["name"], keyword["value"].strip()
    tensor = _TENSOR.fullmatch(value)
    if tensor is not None:
        return Input(name, TensorInput(_dtype(tensor["dtype"], text), _sizes(tensor["sizes"], text)))
    try:
        return Input(name, LiteralInput(ast.literal_eval(value)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise TargetError(f"--input {text!r} cannot be read", _EXAMPLE) from None


def _dtype(name: str, text: str) -> str:
    if name in DTYPES:
        return name
    near = difflib.get_close_matches(name, DTYPES, 1)
    todo = f"did you mean {near[0]}?" if near else f"known ones: {', '.join(DTYPES)}"
    raise TargetError(f"--input {text!r}: there is no dtype {name!r}", todo)


def _sizes(text: str, whole: str) -> tuple[int | str, ...]:
    sizes: list[int | str] = []
    for part in (piece.strip() for piece in text.split(",") if text.strip()):
        if part.isdecimal() and len(part) <= _DIGITS:
            sizes.append(int(part))
        elif part.isidentifier():
            sizes.append(part)
        else:
            raise TargetError(f"--input {whole!r}: {part!r} is no size", _EXAMPLE)
    return tuple(sizes)


def parse_vary(text: str) -> Vary:
    """Read one `--vary`, `DIM=SIZE,SIZE,...`.

    Raises:
        TargetError: it is not of that form.
    """
    dimension, equals, sizes = text.partition("=")
    try:
        if equals:
            return Vary(int(dimension), tuple(_natural(size) for size in sizes.split(",")))
    except ValueError:
        pass
    raise TargetError(f"--vary {text!r} cannot be read", 'write the dimension and its sizes, as in --vary "0=1,2,8"')


def _natural(text: str) -> int:
    size = int(text)
    if size < 0:
        raise ValueError(text)
    return size
