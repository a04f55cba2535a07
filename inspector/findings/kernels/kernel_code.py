"""Show the code of kernels next to the user's lines, and the wrapper that calls the kernels."""

import re
from collections.abc import Iterator

from msgspec import Struct

from ctrace.inspector.facts.kernels import Kernel, OutputCode
from ctrace.inspector.facts.session import Session

_CALL = re.compile(r"^(\s*)def call\(")
_WORD = re.compile(r"\w")


class Passage(Struct, frozen=True):
    """Consecutive lines of a kernel's source that come from the same user lines."""

    places: tuple[str, ...] | None
    """Each `file:line`; empty if torch does not know the origin, None if no line up to here has a known origin."""
    text: tuple[str, ...]


def passages(kernel: Kernel) -> tuple[Passage, ...]:
    """Split the source of a kernel at every change of origin; the passages together are the source.

    Lines without a word, such as a closing brace, belong to the passage before them.
    """
    known = {statement.line: statement.lines for statement in kernel.statements}
    found: list[tuple[tuple[str, ...] | None, list[str]]] = []
    for number, line in enumerate(kernel.source.split("\n"), 1):
        before = found[-1][0] if found else None
        nobody: tuple[str, ...] | None = () if before is not None else None
        places = known.get(number, nobody if _WORD.search(line) else before)
        if not found or places != before:
            found.append((places, []))
        found[-1][1].append(line)
    return tuple(Passage(places, tuple(text)) for places, text in found)


def wrappers(session: Session, graph: str | None, stage: str | None) -> Iterator[tuple[OutputCode, str]]:
    """Yield each graph part's function `call`, which calls each kernel with its arguments."""
    for code in session.code:
        if graph in (None, code.graph) and stage in (None, str(code.stage)):
            yield code, _call(code.text)


def _call(text: str) -> str:
    """Return the function `call`, or the whole text if there is none, such as for a wrapper in C++."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if _CALL.match(line)), None)
    if first is None:
        return text
    indent = len(lines[first]) - len(lines[first].lstrip())
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        end += 1
    return "\n".join(line[indent:] for line in lines[first:end]).rstrip()
