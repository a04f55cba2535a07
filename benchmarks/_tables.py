"""Write the tables of virtual_gpu.py as Markdown and JSON, and check its goals."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path

from _compare import Comparison, Share

LEAST_EQUAL = 0.95
"""Fraction of generated kernels whose sources must be equal."""


SAME_CHOICES = "choices as timed"
"""A row that compares the GPU with code emitted with the choices that torch timed on the GPU."""
GPU_TWICE = "the GPU again"
"""A row that compares the GPU with another run on itself."""


@dataclass(frozen=True)
class Row:
    """One model in one mode: the comparison, or why there is none."""

    model: str
    mode: str
    what: str = ""
    """What the row compares with the GPU, if not the plain output of `--target`."""
    comparison: Comparison | None = None
    failure: str = ""


@dataclass(frozen=True)
class Emitted:
    """One model in one mode, emitted for one target."""

    model: str
    mode: str
    target: str
    seconds: float
    verdict: str = ""
    kernels: int = 0
    calls: int = 0
    """Number of library calls."""
    undecided: int = 0
    problems: tuple[str, ...] = ()
    failure: str = ""


def table(rows: Sequence[Row]) -> str:
    """Return the table of comparisons, its sums, and every difference below it."""
    heads = ("model", "mode", "graph parts", "kernels", "equal source", "equal PTX", "equal resources", "differences")
    lines = [_line(heads), _line(["---"] * len(heads)), *(_line(_cells(row)) for row in rows)]
    alone, same = on_its_own(rows), with_same_choices(rows)
    lines.append(_sum("all", "", alone))
    if same != alone:
        lines.append(_sum("all", SAME_CHOICES, same))
    return "\n".join([*lines, "", *_listed(rows)])


def on_its_own(rows: Iterable[Row]) -> list[Row]:
    """Return the rows for the plain output of `--target`, without the GPU's answers."""
    return [row for row in rows if not row.what]


def with_same_choices(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each model and mode, preferring the one with the GPU's choices."""
    same = {(row.model, row.mode): row for row in rows if row.what == SAME_CHOICES}
    return [same.get((row.model, row.mode), row) for row in on_its_own(rows)]


def _sum(model: str, what: str, rows: Sequence[Row]) -> str:
    sources, ptx, resources = sums(rows)
    return _line([model, what, "", str(sources.compared), *map(_percent, (sources, ptx, resources)), ""])


def _cells(row: Row) -> list[str]:
    mode = _mode(row)
    if row.comparison is None:
        return [row.model, mode, *["-"] * 5, f"failed: {row.failure}"]
    found = row.comparison
    counted = [str(found.parts), str(found.sources.compared), str(found.sources.equal), str(found.ptx)]
    kinds = ", ".join(dict.fromkeys(each.what for each in found.differences))
    return [row.model, mode, *counted, str(found.resources), kinds]


def _mode(row: Row) -> str:
    return f"{row.mode}, {row.what}" if row.what else row.mode


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def sums(rows: Iterable[Row]) -> tuple[Share, Share, Share]:
    """Add up sources, PTX and resources."""
    found = [row.comparison for row in rows if row.comparison is not None]
    shares = ([each.sources for each in found], [each.ptx for each in found], [each.resources for each in found])
    sources, ptx, resources = (reduce(add, column, Share()) for column in shares)
    return sources, ptx, resources


def _percent(share: Share) -> str:
    return f"{share} = {share.equal / share.compared:.1%}" if share.compared else str(share)


def _listed(rows: Iterable[Row]) -> Iterable[str]:
    for row in rows:
        found = row.comparison
        if found is not None and found.hashes:
            yield f"- {row.model}, {_mode(row)}: {found.hashes} kernels are equal only with hashes put aside"
        for each in found.differences if found is not None else ():
            why = f" ({each.why})" if each.why else ""
            yield f"- {row.model}, {_mode(row)}, {each.part} {each.kernel}: {each.what}{why}"
            if each.diff:
                yield from ("", "  ```diff", *(f"  {line}" for line in each.diff.splitlines()), "  ```", "")


def emitted_table(rows: Sequence[Emitted]) -> str:
    """Return the table of captures that were only emitted."""
    heads = ("model", "mode", "target", "verdict", "kernels", "library calls", "undecided", "seconds", "problems")
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in rows:
        outcome = f"failed: {row.failure}" if row.failure else "; ".join(row.problems)
        counts = [row.verdict, str(row.kernels), str(row.calls), str(row.undecided), f"{row.seconds:.0f}"]
        lines.append(_line([row.model, row.mode, row.target, *counts, outcome]))
    return "\n".join(lines)


def write(file: Path, rows: Sequence[Row] | Sequence[Emitted], about: dict[str, str]) -> None:
    """Write the rows as JSON."""
    file.write_text(json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def good_enough(rows: Sequence[Row]) -> bool:
    """Whether the goals are met: nearly all sources are equal, all their PTX and resources are, and no run failed.

    If torch chose by timing, the row with the same choices counts.
    """
    sources, ptx, resources = sums(with_same_choices(rows))
    if any(row.comparison is None for row in rows) or not sources.compared:
        return False
    exact = all(share.compared and share.equal == share.compared and not share.missing for share in (ptx, resources))
    return exact and sources.equal >= LEAST_EQUAL * sources.compared
