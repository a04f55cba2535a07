"""Pieces of the fusion screens: names of nodes, and pairs that were not fused."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.fusion_facts import Fusion
from ctrace.inspector.findings.fusion.fusion_view import Called, called
from ctrace.inspector.findings.fusion.missed_fusions import Missed, MissedKind
from ctrace.reports import format as fmt
from ctrace.reports.wording.fusion_wording import lines_text, ops_text, shared_text, short_name

_LABEL = 12


def node_label(each: Called, *, name: bool = False) -> Text:
    """Name a node by its ops and lines; with `name`, also by torch's name."""
    torch = f" {short_name(each.name)}" if name and each.ops else ""
    return Text.assemble((ops_text(each), "bold"), (f" {lines_text(each.lines)}{torch}", "dim"))


def pair_label(first: Called, second: Called, *, joiner: str = "+", name: bool = False) -> Text:
    """Name both nodes of a pair."""
    return Text.assemble(node_label(first, name=name), f" {joiner} ", node_label(second, name=name))


def fact(name: str, value: str | Text, style: str = "") -> RenderableType:
    """Return a label with its value beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(width=_LABEL, style="dim")
    grid.add_column()
    grid.add_row("", name, Text(value, style=style) if isinstance(value, str) else value)
    return grid


def missed_item(fusion: Fusion, kind: MissedKind, *, verbose: bool) -> RenderableType:
    """Show a pair that was not fused: the bytes, both nodes, what they share, why, and what to do."""
    each = kind.example
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=11, justify="right", style="yellow")
    grid.add_column()
    size = fmt.memory(each.bytes) if each.bytes or not each.perhaps else f"≤ {fmt.memory(each.perhaps)}"
    grid.add_row(size, Group(*_missed_lines(fusion, kind, verbose=verbose)))
    return grid


def _missed_lines(fusion: Fusion, kind: MissedKind, *, verbose: bool) -> Iterator[Text]:
    each = kind.example
    head = pair_label(called(each.first), called(each.second), joiner="→" if is_flow(each) else "&", name=verbose)
    if kind.times > 1:
        head.append(f"  {kind.times} times", style="dim")
    yield head
    yield Text(f"{shared_text(fusion, each.shared)}", style="dim")
    yield Text(fmt.one_line(each.reason.sentence, 300))
    if each.reason.fix:
        yield Text(f"→ {fmt.one_line(each.reason.fix, 300)}", style="green")
    if verbose:
        yield Text(torch_words(each), style="dim")


def is_flow(each: Missed) -> bool:
    """Whether the second node reads what the first produces."""
    return any(shared.produced for shared in each.shared)


def torch_words(each: Missed) -> str:
    """Write torch's own reason."""
    return f"torch: {fmt.one_line(each.reason.torch, 300)}" if each.reason.torch else "torch logs no reason"
