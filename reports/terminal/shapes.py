"""`ctrace shapes` on screen: what became of each size, why, and what to write to keep it dynamic."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ctrace.inspector.dimensions import Condition, Policy, Unbacked
from ctrace.inspector.model import Session
from ctrace.inspector.views.marks import marks
from ctrace.inspector.views.shapes import (
    FunctionShapes,
    Sized,
    SizedTensor,
    by_function,
    is_dull,
    range_words,
    short,
    telling,
    violations,
    why,
)
from ctrace.reports import format as fmt
from ctrace.reports.terminal.parts import headline, item, section

_MOST_SIZES = 8
_MOST_CONDITIONS = 3
_MOST_EARLIER = 6
_MOST_TENSORS = 20
_WIDEST = 22
"""Columns of what a dimension became, before the reason."""


def shapes_screen(
    session: Session, function: str | None = None, *, everything: bool = False
) -> Iterator[RenderableType]:
    """Show each function's newest graph, what differed before, and lines to paste.

    Raises:
        TargetError: there is no such function.
    """
    found = by_function(session, function, everything=everything)
    yield headline(session)
    for sentence in violations(session):
        yield Padding(Text(f"! {fmt.one_line(sentence, 900)}", style="red"), (1, 0, 0, 0))
    for each in found:
        yield from _function(each, session, everything=everything)
    if not found:
        yield Text("\nNothing is known of sizes: nothing was compiled, or an older ctrace wrote this run.", style="dim")
    if any(not each.latest.complete for each in found):
        yield Text(
            "\nTorch alone wrote this log: it tells of sizes that were dynamic at first, and not of static ones.",
            style="dim",
        )
    yield from _marks(found, session)


def _function(each: FunctionShapes, session: Session, *, everything: bool) -> Iterator[RenderableType]:
    shaped, cwd = each.latest, session.environment.cwd
    newest = f", the newest of {each.graphs}" if each.graphs > 1 else ""
    failed = f" · failed: {fmt.plain(shaped.fail_type)}" if shaped.fail_type else ""
    head = section(fmt.plain(shaped.function))
    head.append(f"  {fmt.place(shaped.file, shaped.line, cwd)} · graph {shaped.compilation}{newest}{failed}", "dim")
    yield head
    most = len(each.tensors) if everything else _MOST_TENSORS
    telling_ones = [sized for sized in each.tensors if not is_dull(sized)]
    for sized in telling_ones[:most]:
        yield item(Group(*_tensor(sized, cwd, everything=everything)))
    if len(telling_ones) > most:
        yield item(Text(f"and {fmt.count(len(telling_ones) - most, 'more tensor')}: see --all", style="dim"))
    yield from _dull([sized for sized in each.tensors if is_dull(sized)], everything=everything)
    if each.hidden:
        yield item(Text(f"{fmt.count(each.hidden, 'static parameter or buffer', 'static parameters and buffers')}: see --all", style="dim"))
    yield from _unbacked(shaped.unbacked, cwd)
    yield from _needed(shaped.needed, cwd)
    yield from _earlier(each)


def _tensor(each: SizedTensor, cwd: str, *, everything: bool) -> Iterator[RenderableType]:
    sizes = f" [{', '.join(sized.dim.size or '?' for sized in each.dims)}]"
    numbered = each.tensor.role == "number"
    role = "" if each.tensor.role in ("input", "number") else f" · {each.tensor.role}"
    example = f" = {each.dims[0].dim.size}" if numbered else sizes
    yield Text.assemble(
        (fmt.one_line(each.tensor.name, 60), "bold"), (f"  {fmt.plain(each.tensor.dtype)}{example}{role}", "dim")
    )
    for sized in each.dims:
        yield from _dim(sized, cwd, everything=everything)


def _dim(sized: Sized, cwd: str, *, everything: bool) -> Iterator[RenderableType]:
    dim = sized.dim
    at = "" if dim.index is None else f"{dim.index}  "
    became = fmt.one_line(short(dim), 60)
    style = "yellow" if sized.one_graph_each or dim.fixed else "cyan"
    reason = "; ".join(part for part in (why(sized), _took(sized)) if part)
    gap = " " * max(_WIDEST - len(became), 2)
    line = Text.assemble((at, "dim"), (became, style), f"{gap}{fmt.one_line(reason, 200)}" if reason else "")
    yield Padding(line, (0, 0, 0, 3))
    if dim.fixed is not None:
        yield _condition(dim.fixed, dim.fixed.why, cwd)
    shown = telling(dim) if not everything else dim.conditions
    for condition in shown[: None if everything else _MOST_CONDITIONS]:
        yield _condition(condition, f"only where {condition.text}", cwd)
    if left := len(dim.conditions) - len(shown[: None if everything else _MOST_CONDITIONS]):
        yield Padding(Text(f"and {fmt.count(left, 'more condition')}: see --all", style="dim"), (0, 0, 0, 6))


def _took(sized: Sized) -> str:
    if len(sized.took) < 2:
        return ""
    took = f"took {fmt.listed(map(fmt.plain, sized.took), _MOST_SIZES)}"
    if sized.one_graph_each:
        return f"{took}: one graph each"
    return took


def _condition(condition: Condition, told: str, cwd: str) -> RenderableType:
    where = f"  {fmt.place(condition.file, condition.line, cwd)}" if condition.file else ""
    code = f"  `{fmt.one_line(condition.source, 80)}`" if condition.source and condition.source not in told else ""
    return Padding(Text.assemble(fmt.one_line(told, 300), (f"{where}{code}", "dim")), (0, 0, 0, 6))


def _dull(tensors: list[SizedTensor], *, everything: bool) -> Iterator[RenderableType]:
    """Name tensors of which there is nothing more to say, by the reason."""
    by_policy: dict[Policy | None, list[SizedTensor]] = {}
    for each in tensors:
        by_policy.setdefault(each.dims[0].dim.policy if each.dims else None, []).append(each)
    for policy, alike in by_policy.items():
        names = (
            f"{fmt.one_line(each.tensor.name, 60)} [{', '.join(sized.dim.size for sized in each.dims)}]" for each in alike
        )
        reason = f" ({why(alike[0].dims[0])})" if policy is not None else " (no dimensions)"
        listed = fmt.listed(names, len(alike) if everything else _MOST_SIZES)
        yield item(Text.assemble(("static", "cyan"), f"{reason}: ", listed))


def _unbacked(found: tuple[Unbacked, ...], cwd: str) -> Iterator[RenderableType]:
    for each in found:
        where = f"  {fmt.place(each.file, each.line, cwd)}" if each.file else ""
        code = f"  `{fmt.one_line(each.source, 80)}`" if each.source else ""
        name = fmt.plain(each.symbol)
        yield item(
            Text.assemble((name, "bold"), f"  depends on data, {range_words(each.low, each.high)}", (f"{where}{code}", "dim"))
        )


def _needed(found: tuple[Condition, ...], cwd: str) -> Iterator[RenderableType]:
    for each in found:
        where = f"  {fmt.place(each.file, each.line, cwd)}" if each.file else ""
        yield item(Text.assemble((fmt.one_line(each.why, 300), "yellow"), (where, "dim")))


def _earlier(each: FunctionShapes) -> Iterator[RenderableType]:
    for shaped, differences in each.earlier[:_MOST_EARLIER]:
        listed = fmt.listed((fmt.one_line(text, 100) for text in differences), 5)
        yield item(Text(f"graph {shaped.compilation} instead: {listed}", style="dim"))
    if (left := len(each.earlier) - _MOST_EARLIER) > 0:
        yield item(Text(f"and {fmt.count(left, 'more graph')} that differ: see --json", style="dim"))


def _marks(found: tuple[FunctionShapes, ...], session: Session) -> Iterator[RenderableType]:
    offered = marks(found, session.environment.torch)
    if not offered:
        return
    yield section("To keep sizes dynamic")
    for note in dict.fromkeys(mark.note for mark in offered):
        lines = [mark.line for mark in offered if mark.note == note and mark.line]
        yield item(Text(fmt.plain(f"{note}:" if lines else note), style="" if not lines else "dim"))
        for line in lines:
            # One line each, whatever the width: they are to be copied.
            yield Text(f"   {fmt.plain(line)}", style="green", no_wrap=True, overflow="ignore")
