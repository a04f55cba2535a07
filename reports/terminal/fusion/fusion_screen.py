"""Screen of `ctrace fusion`: bytes, rounds and missed fusions of each graph part."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.facts.fusion_facts import Fusion, FusionRound
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion.fusion_view import ops_lowered
from ctrace.inspector.findings.fusion.missed_fusions import Missed, alike, not_fused
from ctrace.inspector.findings.fusion.order import ending, rounds
from ctrace.inspector.findings.fusion.totals import totals
from ctrace.reports import format as fmt
from ctrace.reports.terminal.fusion.fusion_parts import fact, missed_item
from ctrace.reports.terminal.target.target_screen import basis_line
from ctrace.reports.terminal.widgets import MOST, headline
from ctrace.reports.wording.fusion_wording import kinds_text, totals_text


def fusion_screen(
    session: Session, found: tuple[Fusion, ...], *, all_of_it: bool = False, verbose: bool = False
) -> Iterator[RenderableType]:
    """Draw the screen."""
    yield headline(session)
    if not found:
        yield nothing(session)
        return
    shown = found if all_of_it else found[:MOST]
    for each in shown:
        yield part_head(session, each)
        yield from _facts(session, each)
        yield from _missed(each, all_of_it=all_of_it, verbose=verbose)
    if len(shown) < len(found):
        yield Text(f"\nand {fmt.count(len(found) - len(shown), 'more graph part')}: see --all", style="dim")
    yield Text("\nThe pairs of each round: --rounds · the nodes: --nodes · torch's words: -v", style="dim")
    yield from basis_line(session)


def nothing(session: Session) -> Text:
    """Say that there was nothing to fuse, and why if known."""
    backend = session.environment.backend
    because = f"; the backend is {fmt.one_line(backend, 40)}" if backend and "inductor" not in backend else ""
    return Text(f"\nNothing to fuse: no graph went through Inductor's scheduler{because}.", style="dim")


def part_head(session: Session, fusion: Fusion) -> Text:
    """Name a graph part, with its nodes before and after fusion."""
    known = {each.id: each for each in session.compilations}
    function = f"  {fmt.one_line(known[fusion.graph].function, 30)}," if fusion.graph in known else ""
    return Text.assemble(
        "\n",
        (f"{fmt.plain(fusion.graph)}{function} stage {fusion.stage}", "bold"),
        (f"  {fmt.count(fusion.before, 'node')} to {fusion.after}", "dim"),
    )


def _facts(session: Session, fusion: Fusion) -> Iterator[RenderableType]:
    found = totals(fusion)
    if found is None:
        yield fact("bytes", "not recorded: an older ctrace wrote this log")
    else:
        yield fact("bytes", totals_text(found))
        yield fact("before", _before(session, fusion))
    for name, each in rounds(fusion):
        yield fact(name, round_text(each))
    if why := ending(fusion):
        yield fact("end", why)
    if found is not None:
        yield fact("after", kinds_text(fusion.result))


def _before(session: Session, fusion: Fusion) -> str:
    ops = ops_lowered(session, fusion)
    merged = f"; {fmt.count(ops, 'op')} lowered to {fmt.count(fusion.before, 'node')}" if ops else ""
    return f"{kinds_text(fusion.nodes)}{merged}"


def round_text(each: FusionRound) -> str:
    """Summarize a round as `7 nodes to 6: 12 pairs tried, 3 fusible, 1 fused`."""
    counts = [f"{fmt.count(len(each.fused), 'pair')} fused"]
    if each.tried is not None:
        counts = [f"{fmt.count(each.tried, 'pair')} tried"]
        counts += [f"{len(each.candidates) or 'none'} fusible"] if each.tried else []
        counts += [f"{len(each.fused)} fused"] if each.candidates or each.fused else []
    return f"{fmt.count(each.before, 'node')} to {each.after}: {', '.join(counts)}"


def _missed(fusion: Fusion, *, all_of_it: bool, verbose: bool) -> Iterator[RenderableType]:
    if totals(fusion) is None:
        return
    pairs = not_fused(fusion)
    kinds = alike(each for each in pairs.missed if all_of_it or (each.is_possible and each.bytes))
    shown = kinds if all_of_it else kinds[:MOST]
    if shown:
        yield Text(" Not fused, at the cost of extra memory traffic:", style="bold")
    for kind in shown:
        yield missed_item(fusion, kind, verbose=verbose)
    for line in _left_out(pairs.missed, len(kinds) - len(shown), pairs.hidden, all_of_it=all_of_it):
        yield Padding(Text(line, style="dim"), (0, 0, 0, 12))


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
