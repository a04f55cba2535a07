"""Screen of `ctrace fusion`: bytes, rounds and missed fusions of each graph part.

`--rounds` shows every pair that was tried, in order, and why; `--nodes` every node.

For `ctrace explain`, all of it in a few lines.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.fusion_facts import Buffer, FusionRound, Node, Refusal
from ctrace.inspector.findings.fusion_view import (
    Called,
    FusedPart,
    FusionDocument,
    Ranked,
    RankedRound,
    RecordedNodes,
    UserNames,
    called,
)
from ctrace.inspector.findings.missed_fusions import Missed, MissedKind, alike
from ctrace.inspector.knowledge.advice import advice_on_refusal, entries
from ctrace.inspector.session.summary import FusionSummary
from ctrace.reports import format as fmt
from ctrace.reports.terminal.target_gpu_screen import basis_line
from ctrace.reports.terminal.widgets import MOST, capped, hanging, indented, item, more
from ctrace.reports.wording.fusion_wording import (
    bytes_text,
    kinds_text,
    lines_text,
    ops_text,
    score_text,
    shared_text,
    short_name,
    totals_text,
)

# Wide enough for the names of rounds.
_LABEL = 12
# Chosen: one page; a large graph part has hundreds of nodes.
_NODES = 40
# Chosen: three sizes of a loop, such as `4096, 1024 | 128`.
_LOOPS = 18
_COLUMNS = ("  node", "kind", "loops", "read", "written")


def fusion_screen(
    document: FusionDocument, _width: int, *, all_of_it: bool = False, verbose: bool = False
) -> Iterator[RenderableType]:
    """Draw the screen."""
    found = document.fusion
    if not found:
        yield nothing(document)
        return
    shown = capped(found, MOST, all_of_it=all_of_it)
    for part in shown:
        yield part_head(part)
        yield from _facts(part)
        if part.recorded is not None:
            yield from _missed(part.recorded, all_of_it=all_of_it, verbose=verbose)
    yield from more(len(found), "graph part", "--all", most=len(shown), before="\n")
    yield Text("\nThe pairs of each round: --rounds · the nodes: --nodes · torch's words: -v", style="dim")
    yield from basis_line(document.target_gpu)


def nothing(document: FusionDocument) -> Text:
    """Say that there was nothing to fuse, and why if known."""
    backend = document.run.environment.backend
    because = f"; the backend is {fmt.one_line(backend, 40)}" if backend and "inductor" not in backend else ""
    return Text(f"\nNothing to fuse: no graph went through Inductor's scheduler{because}.", style="dim")


def part_head(part: FusedPart) -> Text:
    """Name a graph part, with its nodes before and after fusion."""
    function = fmt.framed("  ", fmt.one_line(part.function, 30), ",")
    return Text.assemble(
        "\n",
        (f"{fmt.plain(part.of.graph)}{function} stage {part.of.stage}", "bold"),
        (f"  {fmt.count(part.of.before, 'node')} to {part.of.after}", "dim"),
    )


def _facts(part: FusedPart) -> Iterator[RenderableType]:
    if part.bytes is None:
        yield fact("bytes", "not recorded: an older ctrace wrote this log")
    else:
        yield fact("bytes", totals_text(part.bytes))
        yield fact("before", _before(part))
    for each in part.rounds:
        yield fact(each.name, round_text(each.of))
    if part.end:
        yield fact("end", part.end)
    if part.bytes is not None:
        yield fact("after", kinds_text(part.of.result))


def _before(part: FusedPart) -> str:
    merged = fmt.framed("; ", fmt.some(part.ops, "op"), f" lowered to {fmt.count(part.of.before, 'node')}")
    return f"{kinds_text(part.of.nodes)}{merged}"


def round_text(each: FusionRound) -> str:
    """Summarize a round as `7 nodes to 6: 12 pairs tried, 3 fusible, 1 fused`."""
    counts = [f"{fmt.count(len(each.fused), 'pair')} fused"]
    if each.tried is not None:
        counts = [f"{fmt.count(each.tried, 'pair')} tried"]
        if each.tried:
            counts.append(f"{len(each.candidates) or 'none'} fusible")
        if each.candidates or each.fused:
            counts.append(f"{len(each.fused)} fused")
    return f"{fmt.count(each.before, 'node')} to {each.after}: {', '.join(counts)}"


def _missed(found: RecordedNodes, *, all_of_it: bool, verbose: bool) -> Iterator[RenderableType]:
    # What no kernel of Inductor could fuse, and what may share nothing, is counted in a line below.
    kinds = alike(each for each in found.missed if all_of_it or (each.is_possible and each.bytes))
    shown = capped(kinds, MOST, all_of_it=all_of_it)
    if shown:
        yield Text(" Not fused, at the cost of extra memory traffic:", style="bold")
    for kind in shown:
        yield missed_item(found.buffers, kind, verbose=verbose)
    hidden = found.pairs_without_shared_data
    for line in _left_out(found.missed, len(kinds) - len(shown), hidden, all_of_it=all_of_it):
        yield indented(Text(line, style="dim"), 12)


def _left_out(missed: tuple[Missed, ...], more: int, hidden: int, *, all_of_it: bool) -> Iterator[str]:
    calls = [each for each in missed if not each.is_possible]
    if more:
        yield f"and {fmt.count(more, 'more kind of pair', 'more kinds of pairs')}: see --all"
    if calls and not all_of_it:
        number = fmt.count(len(calls), "pair of library calls shares", "pairs of library calls share")
        yield f"{number} data, too, at most {fmt.memory(calls[0].bytes)} each: see --all"
    partial = sum(not each.bytes and each.is_possible for each in missed)
    if partial and not all_of_it:
        number = fmt.count(partial, "pair uses", "pairs use")
        yield f"{number} parts of one tensor, perhaps not the same part: see --all"
    if hidden:
        yield f"{fmt.count(hidden, 'pair shares', 'pairs share')} no data"


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


def missed_item(buffers: tuple[Buffer, ...], kind: MissedKind, *, verbose: bool) -> RenderableType:
    """Show a pair that was not fused: the bytes, both nodes, what they share, why, and what to do."""
    each = kind.example
    # Where two nodes may read different parts of a tensor, what they share is only bounded.
    size = fmt.memory(each.bytes) if each.bytes or not each.perhaps else f"≤ {fmt.memory(each.perhaps)}"
    return _right_aligned(size, "yellow", _missed_lines(buffers, kind, verbose=verbose))


def _right_aligned(word: str, style: str, lines: Iterable[Text]) -> RenderableType:
    """Write a word at the end of a column, and lines beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=11, justify="right", style=style)
    grid.add_column()
    grid.add_row(word, Group(*lines))
    return grid


def _missed_lines(buffers: tuple[Buffer, ...], kind: MissedKind, *, verbose: bool) -> Iterator[Text]:
    each = kind.example
    head = pair_label(called(each.first), called(each.second), joiner="→" if is_flow(each) else "&", name=verbose)
    yield head.append(fmt.repeated(kind.times, "  ", " times"), style="dim")
    yield Text(f"{shared_text(buffers, each.shared)}", style="dim")
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
    if each.reason.torch:
        return f"torch: {fmt.one_line(each.reason.torch, 300)}"
    return "torch logs no reason"


def rounds_screen(
    document: FusionDocument, _width: int, *, all_of_it: bool = False, verbose: bool = False
) -> Iterator[RenderableType]:
    """Show the fused pairs of each round in order, and the refused pairs."""
    if not document.fusion:
        yield nothing(document)
    for part in document.fusion:
        yield part_head(part)
        names = UserNames(part.of)
        for each in part.rounds:
            yield Text.assemble((f" {each.name}", "bold"), (f"  {round_text(each.of)}", "dim"))
            yield from _fused(each, names, MOST if not all_of_it else len(each.candidates) + len(each.of.fused))
            yield from _refused(each.of, names, all_of_it=all_of_it, verbose=verbose)
        yield Text.assemble((" end", "bold"), (f"  {part.end or 'not known'}", "dim"))


def _fused(each: RankedRound, names: UserNames, most: int) -> Iterator[RenderableType]:
    # An older ctrace recorded the fused pairs alone.
    others = each.fused_without_candidate if each.candidates else each.of.fused
    pairs = [*(_candidate(one, names) for one in each.candidates)]
    pairs += [_row("fused", pair_label(names.of(first), names.of(second), name=True)) for first, second in others]
    yield from pairs[:most]
    yield from more(len(pairs), "pair", "--all", most=most, before=" " * 12)


def _candidate(one: Ranked, names: UserNames) -> RenderableType:
    first, second = one.fused or (one.candidate.first, one.candidate.second)
    score = fmt.known(one.candidate.score, score_text, "score not recorded")
    facts = Text(fmt.joined("; ", score, one.order), style="dim")
    lines = pair_label(names.of(first), names.of(second), name=True), facts
    if one.fused:
        return _row("fused", *lines)
    return _row("joined" if one.is_joined else "not fused", *lines)


def _row(word: str, *lines: Text) -> RenderableType:
    return _right_aligned(word, "green" if word == "fused" else "dim", lines)


def _refused(each: FusionRound, names: UserNames, *, all_of_it: bool, verbose: bool) -> Iterator[RenderableType]:
    """Show refused pairs by reason, the most frequent first."""
    # By title: torch's words name the nodes, and so differ for each pair.
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


def nodes_screen(document: FusionDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show the nodes before the first round and after the last."""
    if not document.fusion:
        yield nothing(document)
    for part in document.fusion:
        yield part_head(part)
        if not part.of.nodes:
            yield Text(" This log does not record the nodes: an older ctrace wrote it.", style="dim")
            continue
        for title, nodes in (("before", part.of.nodes), ("after", part.of.result)):
            yield Text.assemble((f" {title}", "bold"), (f"  {kinds_text(nodes)}", "dim"))
            shown = capped(nodes, _NODES, all_of_it=all_of_it)
            yield _nodes(shown, width)
            yield from more(len(nodes), "node", "--all", most=len(shown), before="   ")


def _nodes(nodes: Sequence[Node], width: int) -> RenderableType:
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in _COLUMNS:
        made.add_column(column, no_wrap=True, justify="right" if column in ("read", "written") else "left")
    made.add_column("ops and lines", no_wrap=True, overflow="ellipsis")
    # Rich would take from all columns what the last one has too much.
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


def fusion_title(found: FusionSummary | None) -> str:
    """Return the count of nodes and rounds, to append to a heading; empty if there was nothing to fuse."""
    if found:
        return f"; fusion: {fmt.count(found.before, 'node')} into {found.after}, {fmt.count(found.rounds, 'round')}"
    return ""


def fusion_lines(found: FusionSummary | None, graphs: int) -> Iterator[RenderableType]:
    """Show the bytes that all kernels move, and the most expensive missed fusion, if known."""
    if found is not None and found.moved is not None:
        together = f"; the sum of {graphs} graphs, each run once" if graphs > 1 else ""
        yield item(Text(f"{bytes_text(found.moved)}{together}", style="dim"))
    if found is not None and (each := found.missed) is not None:
        first, second = (fmt.one_line(ops_text(called(node)), 24) for node in (each.first, each.second))
        where = f"  {lines_text((*each.first.lines, *each.second.lines), 30)}"
        flow, common = f"`{first}` writes it, `{second}` reads it back", f"`{first}` and `{second}` both read it"
        head = f"{fmt.memory(each.bytes)} extra memory traffic: {flow if is_flow(each) else common}"
        yield item(Group(Text.assemble((head, "yellow"), (where, "dim")), hanging(f"not fused: {each.reason.title}")))
