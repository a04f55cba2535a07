"""Draw compilations and graph breaks as a Mermaid picture, which GitHub shows in Markdown."""

import re
from collections.abc import Iterator

from ctrace.inspector.facts.session import Compilation, Session
from ctrace.reports import format as fmt

_MOST = 12
"""How many compilations and breaks a small picture has."""
_LONGEST = 48
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:/()=+*'!?…·-]|(?<=:):|:(?=:)")


def picture(session: Session) -> Iterator[str]:
    """Yield the lines of a fenced Mermaid block; nothing if there is only one graph, or none."""
    shown = session.compilations[:_MOST]
    if len(shown) < 2 and not session.breaks:
        return
    yield "\n```mermaid\nflowchart TD"
    ops = {each.id: each.ops for each in session.graphs}
    names = {each.id: f"c{at}" for at, each in enumerate(shown)}
    for each in shown:
        yield f"  {names[each.id]}[{_label(*_of(each, ops.get(each.id)))}]"
    for at, found in enumerate(session.breaks[:_MOST]):
        place = f"{fmt.file_name(found.file)}:{found.line}"
        yield f"  b{at}{{{{{_label('graph break', place, found.expression or found.source)}}}}}"
        yield f"  style b{at} stroke:#d73a49"
        for id_ in found.compilations:
            yield from (f"  {names[id_]} --> b{at}",) if id_ in names else ()
        for each in shown:
            if each.resumes_at is not None and (each.file, each.resumes_at) == (found.file, found.line):
                yield f"  b{at} -->|resumes| {names[each.id]}"
    last: dict[str, str] = {}
    for each in shown:
        if each.frame in last:
            yield f"  {last[each.frame]} -.->|recompiles| {names[each.id]}"
        last[each.frame] = names[each.id]
    yield "```"
    left = len(session.compilations) - len(shown), len(session.breaks[_MOST:])
    if any(left):
        yield f"\nNot in the picture: {fmt.count(left[0], 'compilation')} and {fmt.count(left[1], 'graph break')}."


def _of(each: Compilation, ops: int | None) -> tuple[str, ...]:
    place = f"{fmt.file_name(each.file)}:{each.resumes_at or each.line}"
    what = "no graph" if ops is None else fmt.count(ops, "op")
    return f"{each.id} {each.function}", place, what


def _label(*lines: str) -> str:
    """Write a label; what Mermaid, Markdown or a CI system would interpret becomes a character code."""
    return '"' + " · ".join(_UNSAFE.sub(_code, fmt.one_line(line, _LONGEST)) for line in lines if line) + '"'


def _code(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"
