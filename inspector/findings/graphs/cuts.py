"""Find graphs that would be one graph without the breaks between them.

Where Dynamo splits a function, the rewritten code calls the global `__resume_at_<offset>_<n>` (2.11 to 2.13,
_dynamo/symbolic_convert.py, `create_call_resume_at`). `<offset>` is the offset of the instruction that comes next. The
resume function is a prefix that ends in a jump to that instruction, followed by the whole original code
(_dynamo/resume_execution.py). From that instruction on, both have the same instructions, so the number of remaining
instructions identifies the resume function.

`happened` says in a few words what else became of each graph: its backward and its attention.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.bytecode_facts import Code, Rewritten
from ctrace.inspector.facts.findings import Break, BreakKind
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import answers, short
from ctrace.inspector.grouping import grouped
from ctrace.inspector.source.stacks import resumed

_RESUME = re.compile(r"__resume_at_(?P<offset>\d+)_\d+")
_Point = tuple[str, str, int]
"""Where a function continues: its file, its name, and the number of remaining instructions."""


class Cut(Struct, frozen=True):
    """Two graphs that would be one graph without the breaks between them."""

    JSON: ClassVar[str] = "next=after breaks"
    before: str
    after: str
    breaks: tuple[int, ...]
    """Indexes into `Session.breaks`, in program order."""


def cuts(session: Session) -> tuple[Cut, ...]:
    """List the cuts, in the order of the graphs before them."""
    links = _links(session)
    graphs = {graph.id for graph in session.graphs}
    return tuple(cut for graph in session.graphs for cut in _following(graph.id, links, graphs))


def _following(graph: str, links: dict[str, list[tuple[str, int]]], graphs: set[str]) -> Iterator[Cut]:
    """Find the graphs that run next after a graph; skip functions that break at once and have no graph."""
    waiting: list[tuple[str, tuple[int, ...]]] = [(graph, ())]
    seen = {graph}
    while waiting:
        at, breaks = waiting.pop(0)
        for after, index in links.get(at, ()):
            between = (*breaks, *([] if index in breaks else [index]))
            if after in graphs:
                yield Cut(graph, after, between)
            elif after not in seen:
                seen.add(after)
                # A function that breaks at once is passed over, and its break counts for the graphs around it.
                waiting.append((after, between))


def _links(session: Session) -> dict[str, list[tuple[str, int]]]:
    """Map each function's first compilation to the compilations that resume after its break, each with that break."""
    resuming: dict[_Point, list[str]] = {}
    for compile_id, codes in _first_codes(session):
        point = _entry_point(codes.before)
        if point is not None:
            resuming.setdefault(point, []).append(compile_id)
    links: dict[str, list[tuple[str, int]]] = {}
    for compile_id, codes in _first_codes(session):
        sites = [at for at, each in enumerate(session.breaks) if compile_id in each.compilations]
        # With two breaks in one compilation, nothing says after which of them a resume function continues.
        if len(sites) == 1:
            found = [resuming.get(each, []) for each in _resume_points(codes)]
            links[compile_id] = [(after[0], sites[0]) for after in found if len(after) == 1 and after[0] != compile_id]
    return links


def _first_codes(session: Session) -> Iterator[tuple[str, Rewritten]]:
    """Yield the first compilation of each function; code does not show which recompilation continues in which."""
    return ((compile_id, codes) for compile_id, codes in session.codes.items() if compile_id.endswith("/0"))


def _resume_points(codes: Rewritten) -> list[_Point]:
    """List the places where the rewritten code may continue; an `if` on a tensor has two."""
    offsets = [int(match["offset"]) for name in codes.after.names if (match := _RESUME.fullmatch(name))]
    return [point for at in dict.fromkeys(offsets) if (point := _point(codes.before, at)) is not None]


def _entry_point(code: Code) -> _Point | None:
    """Return the point at which a resume function continues the original; None for any other function."""
    if resumed(code.name)[1] is None:
        return None
    jump = next((each for each in code.instructions if each.opname in _JUMPS), None)
    if jump is None or jump.target is None:
        return None
    return _point(code, jump.target)


# Python 3.10 jumps absolutely, later ones forward.
_JUMPS = ("JUMP_FORWARD", "JUMP_ABSOLUTE")


def _point(code: Code, offset: int) -> _Point | None:
    # The resume function is longer, so its jumps may need EXTENDED_ARG where those of the original do not.
    left = [each for each in code.instructions if each.offset >= offset and each.opname != "EXTENDED_ARG"]
    if left:
        return (code.file, resumed(code.name)[0], len(left))
    return None


def happened(session: Session) -> dict[str, str]:
    """Describe the backward and the attention of each graph in a few words."""
    with_backward = {kernel.graph for kernel in session.kernels if kernel.stage is Stage.BACKWARD}
    attention = grouped(answers(session), lambda each: each.attention.graph)
    found = {}
    for graph in session.graphs:
        parts = ["with backward" if graph.id in with_backward else "", short(attention.get(graph.id, ()))]
        found[graph.id] = ", ".join(part for part in parts if part)
    return found


def cut_off(breaks: Sequence[Break], cut: Cut, places: Iterable[str]) -> str:
    """Describe which two graphs would be one without some breaks."""
    disabled = all(breaks[at].kind is BreakKind.DISABLED for at in cut.breaks)
    reason = ", disabled by its author" if disabled else ""
    return f"{cut.before} and {cut.after} would be one graph without the break at {' and '.join(places)}{reason}"
