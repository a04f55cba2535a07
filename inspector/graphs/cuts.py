"""Which graphs could have been one, and the breaks between them.

Where Dynamo cuts a function, its new code calls the global `__resume_at_<offset>_<n>` (2.11 to 2.13,
_dynamo/symbolic_convert.py, `create_call_resume_at`), where the offset is that of the instruction to go on with. The
function that resumes is the whole original after a prefix that ends in a jump there (_dynamo/resume_execution.py).
Both have the same instructions from there to the end, and so their number tells which resumes where.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ctrace.inspector.model.bytecode import Code, Rewritten
from ctrace.inspector.model.session import Session
from ctrace.inspector.source.stacks import resumed

_RESUME = re.compile(r"__resume_at_(?P<offset>\d+)_\d+")
_Point = tuple[str, str, int]
"""Where a function goes on: its file, its name, and how many instructions are left to its end."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Two graphs that would be one without the breaks between them."""

    before: str
    after: str
    breaks: tuple[int, ...]
    """Indexes into `Session.breaks`, in the order in which they come."""


def cuts(session: Session) -> tuple[Cut, ...]:
    """List the cuts, in the order of the graphs before them."""
    links = _links(session)
    graphs = {graph.id for graph in session.graphs}
    return tuple(cut for graph in session.graphs for cut in _following(graph.id, links, graphs))


def _following(graph: str, links: dict[str, list[tuple[str, int]]], graphs: set[str]) -> Iterator[Cut]:
    """Go on from a graph to the next ones, over functions that have none because they break at once."""
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
                waiting.append((after, between))


def _links(session: Session) -> dict[str, list[tuple[str, int]]]:
    """Find, for each function's first compilation, the ones that go on after its break, and the break."""
    resuming: dict[_Point, list[str]] = {}
    for compile_id, codes in _first_codes(session):
        point = _begins_at(codes.before)
        if point is not None:
            resuming.setdefault(point, []).append(compile_id)
    links: dict[str, list[tuple[str, int]]] = {}
    for compile_id, codes in _first_codes(session):
        sites = [at for at, each in enumerate(session.breaks) if compile_id in each.compilations]
        if len(sites) == 1:
            found = [resuming.get(each, []) for each in _goes_on_at(codes)]
            links[compile_id] = [(after[0], sites[0]) for after in found if len(after) == 1 and after[0] != compile_id]
    return links


def _first_codes(session: Session) -> Iterator[tuple[str, Rewritten]]:
    """Leave out recompilations: which of them goes on in which, code does not tell."""
    return ((compile_id, codes) for compile_id, codes in session.codes.items() if compile_id.endswith("/0"))


def _goes_on_at(codes: Rewritten) -> list[_Point]:
    """List where the new code of a function may go on; there are two ways on from an `if` on a tensor."""
    offsets = [int(match["offset"]) for name in codes.after.names if (match := _RESUME.fullmatch(name))]
    return [point for at in dict.fromkeys(offsets) if (point := _point(codes.before, at)) is not None]


def _begins_at(code: Code) -> _Point | None:
    """Give where a function that resumes goes on; None: it is no such function."""
    if resumed(code.name)[1] is None:
        return None
    jump = next((each for each in code.instructions if each.opname in _JUMPS), None)
    return None if jump is None or jump.target is None else _point(code, jump.target)


_JUMPS = ("JUMP_FORWARD", "JUMP_ABSOLUTE")


def _point(code: Code, offset: int) -> _Point | None:
    left = [each for each in code.instructions if each.offset >= offset and each.opname != "EXTENDED_ARG"]
    return (code.file, resumed(code.name)[0], len(left)) if left else None
