"""The code of kernels beside the user's lines, and the wrapper that calls them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ctrace.inspector.model.kernels import Kernel, OutputCode
from ctrace.inspector.model.session import Session

_CALL = re.compile(r"^(\s*)def call\(")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of a kernel's source that follow each other and are of the same lines of the user's."""

    places: tuple[str, ...] | None
    """`file:line`; empty: torch does not know whose they are. None: it says so of no line around here."""
    text: tuple[str, ...]


def passages(kernel: Kernel) -> tuple[Passage, ...]:
    """Cut the source of a kernel at every change of whose it is; joined, the passages are the source.

    Lines without a word, as a closing brace, stay with those before them.
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
    """Give the `call` function of each graph part: where each kernel is called, and with what."""
    for code in session.code:
        if graph in (None, code.graph) and stage in (None, str(code.stage)):
            yield code, _call(code.text)


def _call(text: str) -> str:
    """Cut the function out; all of the text where there is none, as for a wrapper in C++."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if _CALL.match(line)), None)
    if first is None:
        return text
    indent = len(lines[first]) - len(lines[first].lstrip())
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        end += 1
    return "\n".join(line[indent:] for line in lines[first:end]).rstrip()
