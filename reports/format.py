"""The one place where numbers, paths and foreign text become text to read."""

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePath

from ctrace.inspector.findings import Cost

_INSTALLED = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")

_UNIQUE = re.compile(r"(?<=\d)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b")
"""The end of the name that Dynamo gives a compiled graph (2.11 to 2.13, _dynamo/bytecode_transformation.py)."""

_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
"""Torch's own short words (2.13, `torch.dtype.abbr`)."""


def plain(text: str) -> str:
    """Make foreign text safe for a terminal: control and direction characters are shown, not obeyed."""
    return "".join(letter if letter in "\n\t" or _is_harmless(letter) else _shown(letter) for letter in text)


def _is_harmless(letter: str) -> bool:
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co")


def _shown(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def one_line(text: str, limit: int = 0) -> str:
    """Fold white space, and cut with an ellipsis after `limit` characters (0: never)."""
    folded = " ".join(plain(text).split())
    return folded if not limit or len(folded) <= limit else f"{folded[: limit - 1]}…"


def path(file: str, cwd: str) -> str:
    """Shorten a path that lies in the run's working directory."""
    inside = cwd and file.startswith(f"{cwd.rstrip(os.sep)}{os.sep}")
    return plain(os.path.relpath(file, cwd) if inside else file)


def file_name(file: str) -> str:
    """Drop the folders, for a narrow column."""
    return plain(PurePath(file).name)


def place(file: str, line: int | None, cwd: str) -> str:
    """Write `file:line`, or the file alone; of an installed package, from the package's name on."""
    short = _INSTALLED.sub("", path(file, cwd))
    return short if line is None else f"{short}:{line}"


def microseconds(time: float) -> str:
    """Write `12.3 µs`, or `1.2 ms` from a thousand on."""
    return f"{time:.1f} µs" if time < 1000 else f"{time / 1000:.1f} ms"


def without_unique_part(text: str) -> str:
    """Shorten the names that torch makes unique: `__compiled_fn_2_1f59...` is `__compiled_fn_2`."""
    return _UNIQUE.sub("", text)


def memory(size: int) -> str:
    """Write bytes as `512 B`, `4.0 KiB`, `1.5 GiB`."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1023.95 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def scaled(number: int) -> str:
    """Write `512`, `2.1 k`, `3.4 M`, `1.5 G`: in thousands."""
    value, units = float(number), ["", "k", "M", "G", "T", "P"]
    while value >= 999.95 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.1f} {units[0]}" if units[0] else str(number)


def flops(number: int) -> str:
    """Write a number of floating-point operations as `512 FLOP`, `2.1 GFLOP`."""
    text = scaled(number)
    return f"{text}FLOP" if text[-1:].isalpha() else f"{text} FLOP"


def intensity(value: float) -> str:
    """Write floating-point operations for each byte as `0.25`, `12.3`, `341`; a unit is not written."""
    digits = 0 if value >= 99.95 or not value else 1 if value >= 0.95 else 2
    return f"{value:.{digits}f}"


def tensor(dtype: str, shape: Iterable[object]) -> str:
    """Write `f32[64, 128]`, with torch's short word for the dtype where it has one."""
    return one_line(f"{_DTYPES.get(dtype, dtype)}[{', '.join(map(str, shape))}]")


def count(number: int, noun: str, plural: str = "") -> str:
    """Write `1 graph`, `2 graphs`, `no graphs`."""
    return f"{number or 'no'} {noun if number == 1 else plural or f'{noun}s'}"


def cost(what: Cost) -> str:
    """Write `3 ops in eager, +1 graph`; what was not measured, or is none, is left out."""
    ops = f"{count(what.ops, 'op')} in eager" if what.ops else ""
    graphs = f"+{count(what.graphs, 'graph')}" if what.graphs else ""
    return ", ".join(part for part in (ops, graphs) if part)


def seconds(value: float | None) -> str:
    """Write seconds with a sensible number of digits; None is not a zero."""
    if value is None:
        return "not measured"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def share(part: int | None, whole: int | None) -> str:
    """Write `12 of 14 (86 %)`; what was not measured is said to be so."""
    if part is None or whole is None:
        return "not measured"
    return f"{part} of {whole} ({100 * part // whole} %)" if whole else "0 of 0"


def listed(items: Iterable[str], most: int) -> str:
    """Join with commas, and say how many are left out beyond `most`."""
    names = list(items)
    left = len(names) - most
    return ", ".join(names) if left <= 0 else f"{', '.join(names[:most])}, and {left} more"


def short_op(op: str) -> str:
    """Drop the namespace that nearly every op has."""
    return op.removeprefix("aten.").removeprefix("prims.")
