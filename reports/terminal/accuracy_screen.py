"""Screen of `ctrace accuracy`: which line changed the numbers, how it travels, and what to do."""

import os
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit, PathStep
from ctrace.inspector.findings.scenarios.culprits import error_text, off
from ctrace.inspector.knowledge.words.counting import count
from ctrace.reports import format as fmt
from ctrace.reports.terminal.columns import columned
from ctrace.reports.terminal.widgets import MOST, Verbatim, hanging, section
from ctrace.reports.wording.accuracy_wording import KINDS, answer, place_of_line, short_name, where

_HEADS = {True: ("EQUAL", "bold green"), False: ("NOT EQUAL", "bold red"), None: ("NOT ALL COMPARED", "bold yellow")}


def accuracy_screen(found: Accuracy, target: str, width: int) -> Iterator[RenderableType]:
    """Show the culprits, the worst first."""
    head = _HEADS[found.equal]
    yield Text.assemble(head, "  ", (fmt.one_line(target, 200), "bold"), "\n", answer(found, _cwd()))
    grouped: dict[object, list[Culprit]] = {}
    for each in found.culprits:
        grouped.setdefault((each.scenario, each.file, each.line, each.ops), []).append(each)
    for places in list(grouped.values())[:MOST]:
        yield from _culprit(places)
    if len(grouped) > MOST:
        yield hanging(f"and {len(grouped) - MOST} more: see --json")
    yield from _first_nonfinite(found)
    if found.path:
        yield section("How the error travels, against float64 from the graph's inputs on")
        rows = [
            (short_name(each.name), place_of_line(each.line, _cwd()), error_text(each.error)) for each in _ends(found)
        ]
        yield columned(width, ("after", "line", ">off by"), rows)
    yield from _promises(found)
    if found.not_compared:
        yield section("Not compared")
        for left in found.not_compared[:MOST]:
            yield hanging(f"{fmt.one_line(left.what, 200)}: {left.why}")
        if len(found.not_compared) > MOST:
            yield hanging(f"and {len(found.not_compared) - MOST} more: see --json")
    yield Text(f"\n{_how(found)}", style="dim")


def _culprit(places: list[Culprit]) -> Iterator[RenderableType]:
    """Show one operation of one line, in each kernel that has it."""
    first = places[0]
    source = f"`{fmt.one_line(first.source, 100)}`" if first.source else ""
    yield Text.assemble("\n", (where(first, _cwd()), "bold"), f" {source}")
    ops = ", ".join(first.ops[:MOST])
    scenario = "" if first.scenario == "base" else f" (scenario {fmt.one_line(first.scenario, 40)})"
    if ops:
        one = len(first.ops) == 1 or first.kind not in ("kernel", "external")
        yield hanging(f"{'' if one else 'one of '}{ops}{scenario}")
    for each in places[:MOST]:
        yield hanging(f"{KINDS[each.kind]}{short_name(each.name)}, {each.stage}: {off(each)}")
    if first.reason is not None:
        without = f"; without it, off by {error_text(first.remedy_error)}" if first.remedy is not None else ""
        yield hanging(f"why: {first.reason}{without}")
    if first.remedy is not None:
        yield Verbatim(Text(f"   → {first.remedy}", style="green"))


def _first_nonfinite(found: Accuracy) -> Iterator[RenderableType]:
    made = found.first_nonfinite
    if made is None:
        return
    yield section("The first NaN or infinity")
    where_ = place_of_line(f"{made.file}:{made.line}" if made.file else None, _cwd()) or "a line that is not known"
    eager = "eager makes it as well" if made.in_eager else "eager does not make it"
    yield hanging(f"{where_}: {made.op}, from inputs without any; {eager}, on the same inputs")
    yield hanging(f"kernel {short_name(made.name)}")


def _promises(found: Accuracy) -> Iterator[RenderableType]:
    promises = found.promises
    if promises.run_to_run is not None:
        same = "equal bit for bit" if promises.run_to_run else f"other after {promises.run_to_run_broken_by}"
        yield Text(f"\nThe same call twice: {same}.")
    if promises.batch_invariant is not None:
        same = "equal bit for bit" if promises.batch_invariant else "not equal"
        yield Text(f"A row alone and in its batch: {same}.")


def _ends(found: Accuracy) -> list[PathStep]:
    """Return the first and the last kernels of the path."""
    steps = list(found.path)
    return steps if len(steps) <= 2 * MOST else [*steps[:MOST], *steps[-MOST:]]


def _cwd() -> str:
    return os.getcwd()  # noqa: PTH109 - a text, as in a session


def _how(found: Accuracy) -> str:
    runs = count(found.compiled_runs, "compiled call")
    pieces = f", {count(found.pieces, 'part')} of graphs compiled again" if found.pieces else ""
    return (
        f"{count(found.graphs, 'graph')} on {found.device}, {runs}{pieces}. Random numbers are drawn by PyTorch's "
        "operators, CUDA graphs and freezing are off."
    )
