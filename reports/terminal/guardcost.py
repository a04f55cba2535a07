"""What guards cost, on screen."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.guards import GuardCost
from ctrace.inspector.names import user_name
from ctrace.inspector.views.guards import Guarded
from ctrace.reports import format as fmt
from ctrace.reports.terminal.guardwords import kind_words
from ctrace.reports.terminal.parts import item, section, table

_PYTHON = "LAMBDA_GUARD"
_NUMBERS = 34
"""Columns of the table of parts besides the name."""


def cost_lines(each: Guarded, width: int) -> Iterator[RenderableType]:
    """Show what was measured of one compilation's guards."""
    cost = each.cost
    if cost is None:
        yield Text("Not measured: run `ctrace guards --cost TARGET`, which takes some seconds for each compilation.")
        return
    yield _whole(cost)
    yield section("By part")
    rows = table("part", "guards", "cold", "warm")
    rows.add_row("torch's own state", "", fmt.microseconds(cost.root.cold), fmt.microseconds(cost.root.warm))
    for part in cost.parts:
        name = f"{'  ' * part.depth}{fmt.one_line(user_name(part.source), width - _NUMBERS - 2 * part.depth)}"
        rows.add_row(name, str(part.guards), fmt.microseconds(part.time.cold), fmt.microseconds(part.time.warm))
    if cost.epilogue:
        rows.add_row("relations, in Python", "", "", fmt.microseconds(cost.epilogue))
    yield item(rows)
    yield section("By kind, warm, without finding the values")
    for kind in sorted(cost.kinds, key=lambda kind: -kind.warm):
        words = kind_words(kind.kind)
        yield Text.assemble(
            f"  {fmt.microseconds(kind.warm):>8}  {kind.number:>4} {fmt.plain(kind.kind)}",
            (f"  {words}" if words else "", "dim"),
        )


def _whole(cost: GuardCost) -> Text:
    in_python = sum(kind.warm for kind in cost.kinds if kind.kind == _PYTHON) + cost.epilogue
    share = f"{100 * in_python / cost.whole.warm:.0f} %" if cost.whole.warm else "?"
    return Text(
        f"One check of all: {fmt.microseconds(cost.whole.warm)} warm, {fmt.microseconds(cost.whole.cold)} with cold "
        f"caches; guards in Python {fmt.microseconds(in_python)} of the warm time ({share})."
    )
