"""Screens of `ctrace fusion --rounds` (every pair that was tried, in order, and why) and `--nodes` (every node)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.fusion_facts import Fusion, FusionRound, Node, Refusal
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion.fusion_view import UserNames, called
from ctrace.inspector.findings.fusion.order import Ranked, ending, ranked, rounds, unranked
from ctrace.inspector.knowledge.advice import advice_on_refusal, entries
from ctrace.reports import format as fmt
from ctrace.reports.terminal.fusion.fusion_parts import pair_label
from ctrace.reports.terminal.fusion.fusion_screen import nothing, part_head, round_text
from ctrace.reports.terminal.widgets import MOST, headline
from ctrace.reports.wording.fusion_wording import kinds_text, lines_text, ops_text, order_text, score_text, short_name

_NODES = 40
_LOOPS = 18
_COLUMNS = ("  node", "kind", "loops", "read", "written")


def rounds_screen(
    session: Session, found: tuple[Fusion, ...], *, all_of_it: bool = False, verbose: bool = False
) -> Iterator[RenderableType]:
    """Show the fused pairs of each round in order, and the refused pairs."""
    yield headline(session)
    if not found:
        yield nothing(session)
    for fusion in found:
        yield part_head(session, fusion)
        names = UserNames(fusion)
        for name, each in rounds(fusion):
            yield Text.assemble((f" {name}", "bold"), (f"  {round_text(each)}", "dim"))
            yield from _fused(each, names, MOST if not all_of_it else len(each.candidates) + len(each.fused))
            yield from _refused(each, names, all_of_it=all_of_it, verbose=verbose)
        yield Text.assemble((" end", "bold"), (f"  {ending(fusion) or 'not known'}", "dim"))


def _fused(each: FusionRound, names: UserNames, most: int) -> Iterator[RenderableType]:
    pairs = [*(_candidate(one, names) for one in ranked(each))]
    pairs += [
        _row("fused", pair_label(names.of(first), names.of(second), name=True)) for first, second in unranked(each)
    ]
    yield from pairs[:most]
    if len(pairs) > most:
        yield Text(f"{'':12}and {fmt.count(len(pairs) - most, 'more pair')}: see --all", style="dim")


def _candidate(one: Ranked, names: UserNames) -> RenderableType:
    first, second = one.fused or (one.candidate.first, one.candidate.second)
    facts = [score_text(one.candidate.score)] if one.candidate.score else ["score not recorded"]
    facts += [text] if (text := order_text(one)) else []
    lines = pair_label(names.of(first), names.of(second), name=True), Text("; ".join(facts), style="dim")
    if one.fused:
        return _row("fused", *lines)
    return _row("joined" if one.is_joined else "not fused", *lines)


def _row(word: str, *lines: Text) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=11, justify="right", style="green" if word == "fused" else "dim")
    grid.add_column()
    grid.add_row(word, Group(*lines))
    return grid


def _refused(each: FusionRound, names: UserNames, *, all_of_it: bool, verbose: bool) -> Iterator[RenderableType]:
    """Show refused pairs by reason, the most frequent first."""
    by_title: dict[str, list[Refusal]] = defaultdict(list)
    for one in each.refused:
        if one.first != one.second:  # two nodes that were fused earlier in the round count as one
            by_title[_title(one.reason)].append(one)
    for title, refused in sorted(by_title.items(), key=lambda found: -len(found[1])):
        lines = [Text(f"{title}: {fmt.count(len(refused), 'pair')}")]
        for one in refused[: len(refused) if all_of_it else 2]:
            label = pair_label(names.of(one.first), names.of(one.second), name=True)
            lines.append(Text("  ").append_text(label))
            if verbose:
                lines.append(Text(f"    torch: {fmt.one_line(one.reason, 200) or 'no reason'}", style="dim"))
        yield _row("refused", *lines)


def _title(reason: str) -> str:
    return entries("fusion")[advice_on_refusal(reason) if reason else "unknown"].title


def nodes_screen(
    session: Session, found: tuple[Fusion, ...], width: int, *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show the nodes before the first round and after the last."""
    yield headline(session)
    if not found:
        yield nothing(session)
    for fusion in found:
        yield part_head(session, fusion)
        if not fusion.nodes:
            yield Text(" This log does not record the nodes: an older ctrace wrote it.", style="dim")
            continue
        for title, nodes in (("before", fusion.nodes), ("after", fusion.result)):
            yield Text.assemble((f" {title}", "bold"), (f"  {kinds_text(nodes)}", "dim"))
            yield _nodes(nodes if all_of_it else nodes[:_NODES], width)
            if len(nodes) > _NODES and not all_of_it:
                yield Text(f"   and {fmt.count(len(nodes) - _NODES, 'more node')}: see --all", style="dim")


def _nodes(nodes: Sequence[Node], width: int) -> RenderableType:
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in _COLUMNS:
        made.add_column(column, no_wrap=True, justify="right" if column in ("read", "written") else "left")
    made.add_column("ops and lines", no_wrap=True, overflow="ellipsis")
    left = width - sum(_widths(nodes)) - 2 * len(_COLUMNS)
    for node in nodes:
        made.add_row(*_cells(node), _what(node, left))
    return made


def _widths(nodes: Sequence[Node]) -> list[int]:
    """Return the widths of all columns but the last, without the gaps."""
    rows = [_cells(each) for each in nodes]
    return [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]


def _cells(node: Node) -> tuple[str, ...]:
    sizes = fmt.memory(node.read), fmt.memory(node.written)
    return f"  {fmt.one_line(short_name(node.name), 14)}", str(node.kind), fmt.one_line(node.loops, _LOOPS), *sizes


def _what(node: Node, width: int) -> str:
    each = called(node)
    return fmt.one_line(f"{ops_text(each)}  {lines_text(each.lines)}", max(width, 8))
