"""The one place that formats numbers, durations, paths and foreign text for reading."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TypeVar

from rich.cells import cell_len

from ctrace.inspector.facts.findings import Cost
from ctrace.inspector.knowledge.counting import count as count
from ctrace.inspector.knowledge.counting import framed as framed
from ctrace.inspector.knowledge.counting import memory as memory
from ctrace.inspector.knowledge.counting import repeated as repeated
from ctrace.reports import escape
from ctrace.reports.escape import plain as plain

_INSTALLED = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
_UNIQUE = re.compile(r"(?<=\d)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b")
"""The end of the name that Dynamo gives a compiled graph (2.11 to 2.13, _dynamo/bytecode_transformation.py)."""
_DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
"""Torch's short names for dtypes (2.13, `torch.dtype.abbr`)."""
_LEFT_OUT = f"…{os.sep}"
_Value = TypeVar("_Value")
LONGEST = 4_000
"""The longest line of foreign text on a screen, in columns."""


def one(text: str, limit: int = LONGEST) -> str:
    """Make a name safe for a terminal and a table: show line breaks as escapes, and cut after `limit`."""
    # Four letters a column, since some take no room; not all of a text that may have millions.
    return _bounded(escape.one(text[: 4 * limit]), limit, is_whole=len(text) <= 4 * limit)


def one_line(text: str, limit: int = 0) -> str:
    """Fold white space, and cut with an ellipsis after `limit` columns (0: after `LONGEST`)."""
    most = limit or LONGEST
    # More letters than for a name, since white space is folded.
    return _bounded(" ".join(plain(text[: 16 * most]).split()), most, is_whole=len(text) <= 16 * most)


def _bounded(text: str, limit: int, *, is_whole: bool) -> str:
    return cut(text if is_whole else f"{text}…", limit)


def cut(text: str, limit: int) -> str:
    """Cut text with an ellipsis to `limit` terminal columns; a letter may take two columns, or none."""
    if width(text) <= limit:
        return text
    kept = text[: max(limit - 1, 0)]
    while width(kept) > limit - 1 and kept:
        kept = kept[:-1]
    return f"{kept}…"


def width(text: str) -> int:
    """Return the number of terminal columns that text takes."""
    if text.isascii():
        return len(text)
    return cell_len(text)


def relative(file: str, cwd: str) -> str:
    """Shorten a path in the run's working directory. Not safe to show; see `path`."""
    inside = cwd and file.startswith(f"{cwd.rstrip(os.sep)}{os.sep}")
    # Up to Python 3.11.4, os.path.normpath cuts a path at a null byte.
    if inside and "\0" not in file + cwd:
        return os.path.relpath(file, cwd)
    return file


def shortened(text: str, most: int) -> str:
    """Cut a long text, and say how much is left out."""
    left = len(text) - most
    if left <= 0:
        return text
    return f"{text[:most]}… ({left:,} more characters)"


def path(file: str, cwd: str) -> str:
    """Shorten a path in the run's working directory, and make it safe to show."""
    return one(relative(file, cwd))


def file_name(file: str) -> str:
    """Drop the folders, for a narrow column."""
    return one(PurePath(file).name)


def place(file: str | None, line: int | None, cwd: str) -> str:
    """Write `file:line`, or the file alone, or nothing; the path of an installed package starts at its name."""
    if not file:
        return ""
    short = _INSTALLED.sub("", path(file, cwd))
    if line is None:
        return short
    return f"{short}:{line}"


def short_place(file: str, line: int | None, cwd: str, most: int) -> str:
    """Write `file:line` in at most `most` columns; drop folders from the left, since the file name says most."""
    whole = place(file, line, cwd)
    while width(whole) > most and (os.sep in whole.removeprefix(_LEFT_OUT)):
        whole = _LEFT_OUT + whole.removeprefix(_LEFT_OUT).partition(os.sep)[2]
    if width(whole) <= most:
        return whole
    kept = whole[-most:]
    while width(kept) > most - 1:
        kept = kept[1:]
    return f"…{kept}"


def microseconds(time: float) -> str:
    """Write `12.3 µs`, or `1.2 ms` from a thousand on."""
    if time < 1000:
        return f"{time:.1f} µs"
    return f"{time / 1000:.1f} ms"


def without_unique_part(text: str) -> str:
    """Drop the unique suffix of torch's names: `__compiled_fn_2_1f59...` is `__compiled_fn_2`."""
    return _UNIQUE.sub("", text)


def scaled(number: int) -> str:
    """Write `512`, `2.1 k`, `3.4 M`, `1.5 G`: in thousands."""
    value, units = float(number), ["", "k", "M", "G", "T", "P"]
    # From here on, it would be written as `1000.0`.
    while value >= 999.95 and len(units) > 1:
        value /= 1000
        units.pop(0)
    if units[0]:
        return f"{value:.1f} {units[0]}"
    return str(number)


def flops(number: int) -> str:
    """Write a number of floating-point operations as `512 FLOP`, `2.1 GFLOP`."""
    text = scaled(number)
    if text[-1:].isalpha():
        return f"{text}FLOP"
    return f"{text} FLOP"


def intensity(value: float) -> str:
    """Write FLOPs per byte as `0.25`, `12.3`, `341`, without a unit."""
    # Rounded first: 99.95 is `100`, not `100.0`.
    if value >= 99.95 or not value:
        return f"{value:.0f}"
    if value >= 0.95:
        return f"{value:.1f}"
    return f"{value:.2f}"


def tensor(dtype: str, shape: Iterable[object]) -> str:
    """Write `f32[64, 128]`, with torch's short word for the dtype where it has one."""
    return one_line(f"{_DTYPES.get(dtype, dtype)}[{', '.join(map(str, shape))}]")


def some(number: int | None, noun: str, several: str = "") -> str:
    """Write `1 graph`, `2 graphs`; empty for none."""
    if number:
        return count(number, noun, several)
    return ""


def when(condition: object, text: str) -> str:
    """Return words that are said only in some cases; empty in the others."""
    if condition:
        return text
    return ""


def known(value: _Value | None, write: Callable[[_Value], str] = str, otherwise: str = "?") -> str:
    """Write a value, or in its place what is said of one that is not known."""
    if value is None:
        return otherwise
    return write(value)


def joined(separator: str, *parts: str) -> str:
    """Join the parts that are not empty."""
    return separator.join(filter(None, parts))


def gigabytes(rate: float) -> str:
    """Write bytes per second as `3350 GB/s`, in 10^9, as data sheets do."""
    return f"{rate / 1e9:.0f} GB/s"


def cost(what: Cost) -> str:
    """Write `3 ops in eager`; empty if not measured or zero.

    Leaves out `Cost.graphs`: it counts graphs that begin at a site, and only a trial shows how many a fix removes.
    """
    return framed("", some(what.ops, "op"), " in eager")


def seconds(value: float | None) -> str:
    """Write seconds with a sensible number of digits; None is not measured, not zero."""
    if value is None:
        return "not measured"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 100:
        return f"{value:.1f} s"
    return f"{value:.0f} s"


def share(part: int | None, whole: int | None) -> str:
    """Write `12 of 14 (85%)`, or `not measured`."""
    if part is None or whole is None:
        return "not measured"
    if whole:
        # Rounded down, so that 100% stands for all.
        return f"{part} of {whole} ({100 * part // whole}%)"
    return "0 of 0"


def listed(items: Iterable[str], most: int) -> str:
    """Join with commas, and say how many are left out beyond `most`."""
    names = list(items)
    left = len(names) - most
    if left <= 0:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, and {left} more"


def short_op(op: str) -> str:
    """Drop the namespace `aten.` or `prims.`."""
    return op.removeprefix("aten.").removeprefix("prims.")


def duration(seconds: float | None) -> str:
    """Write a time with three digits: `12.3 µs`, `0.82 ms` is `820 µs`, `1.15 ms`, `2.10 s`."""
    if seconds is None:
        return "not measured"
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        # 999.6 µs are written as `1.00 ms`, not as `1000 µs`.
        if abs(seconds) < limit * 0.9995:
            return f"{digits(seconds * factor)} {unit}"
    return f"{digits(seconds)} s"


def digits(value: float) -> str:
    """Write a number below 1000 with three digits."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def times(ratio: float) -> str:
    """Write a factor: `1.42x`, `12.3x`."""
    return f"{digits(ratio)}x"
