"""Screen of `ctrace guards --cost`: how long checking the guards takes."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.guards import GuardCost
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.guards.view import Guarded
from ctrace.inspector.source.names import user_name
from ctrace.reports import format as fmt
from ctrace.reports.terminal.guards.words import kind_words
from ctrace.reports.terminal.widgets import item, section, table

_PYTHON = "LAMBDA_GUARD"
_SHORTER = 1.2
"""The speedup from which the screen mentions torch's shortcut."""
_NUMBERS = 34
"""The width of the columns except the name, in the table of parts."""


def cost_lines(each: Guarded, session: Session, width: int) -> Iterator[RenderableType]:
    """Show the measured cost of one compilation's guards."""
    cost = each.cost
    if cost is None:
        yield Text("Not measured. Run `ctrace guards --cost TARGET`; it takes some seconds for each compilation.")
        return
    yield _whole(cost)
    if cost.plain.warm > _SHORTER * cost.whole.warm:
        plain = f"{fmt.microseconds(cost.plain.warm)} warm, {fmt.microseconds(cost.plain.cold)} cold"
        yield Text(f"Without torch's shortcut for unchanged modules, as in the parts below: {plain}.")
    yield _of_a_call(each, cost, session)
    yield section("By part")
    rows = table("part", "guards", "cold", "warm")
    rows.add_row("torch's own state", "", fmt.microseconds(cost.root.cold), fmt.microseconds(cost.root.warm))
    for part in cost.parts:
        title = user_name(part.source) if part.source else "smaller parts"
        name = f"{'  ' * part.depth}{fmt.one_line(title, width - _NUMBERS - 2 * part.depth)}"
        rows.add_row(name, str(part.guards), _time(part.time.cold), _time(part.time.warm))
    if cost.epilogue:
        rows.add_row("relations, checked in Python", "", "", fmt.microseconds(cost.epilogue))
    yield item(rows)
    yield section("By kind, warm, without the lookup of the values")
    for kind in sorted(cost.kinds, key=lambda kind: -kind.warm):
        words = kind_words(kind.kind)
        yield Text.assemble(
            f"  {fmt.microseconds(kind.warm):>8}  {kind.number:>4} {fmt.plain(kind.kind)}",
            (f"  {words}" if words else "", "dim"),
        )


def _time(difference: float) -> str:
    """Write the difference of two measurements, which noise can make negative near zero."""
    return fmt.microseconds(difference) if difference > 0 else "≈ 0 µs"


def _of_a_call(each: Guarded, cost: GuardCost, session: Session) -> Text:
    """Compare the guards' time with a compiled call of the same scenario."""
    scenario = next((one for one in session.scenarios if one.name == each.head.compilation.scenario), None)
    seconds = scenario.call_seconds if scenario else None
    if scenario is None or seconds is None:
        return Text("One call of the compiled function: not measured.", style="dim")
    how = "" if session.environment.built else " with its graphs run eagerly (--build runs the kernels)"
    share = 100 * cost.whole.warm / (seconds * 1e6)
    takes = f"One call in {fmt.one_line(scenario.name, 40)} takes {fmt.microseconds(seconds * 1e6)}{how}"
    return Text(f"{takes}; guards are {share:.1f}% of it.")


def _whole(cost: GuardCost) -> Text:
    in_python = sum(kind.warm for kind in cost.kinds if kind.kind == _PYTHON) + cost.epilogue
    share = f"{100 * in_python / cost.whole.warm:.0f}%" if cost.whole.warm else "?"
    return Text(
        f"Checking all guards: {fmt.microseconds(cost.whole.warm)} warm, {fmt.microseconds(cost.whole.cold)} with cold "
        f"caches; Python guards take {fmt.microseconds(in_python)} of the warm time ({share})."
    )
