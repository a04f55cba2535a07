"""Show the code of kernels next to the user's lines, and the wrapper that calls the kernels.

Map compiled code to the lines of a kernel's source: Triton keeps the line of each operation in every stage.

Lines are those of `Kernel.source`, which lacks the line breaks before the first statement, so the first line of the
function shows the offset between the two counts. An operation of an inlined helper has the line that calls the helper.
A binary has no lines here: the disassembly does not print them.
"""

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


_LOC = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_FILE = re.compile(r'^"[^"]*":(\d+):\d+$')
_LAST = re.compile(r"loc\((#loc\d*)\)\s*$")
_REFERENCE = re.compile(r"#loc\d*")
_PTX_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(.*)$")
_CALLER = re.compile(r"([^\s\[\]]+):(\d+):\d+[\s\]]*$")
_DEBUG = re.compile(r"!dbg (!\d+)")
_LOCATION = re.compile(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:.*inlinedAt: (!\d+))?")
_SUBPROGRAM = re.compile(r"^(!\d+) = distinct !DISubprogram\(.*\bline: (\d+)")
_DEEPEST = 64
"""Limit on nested locations, such as a helper that calls a helper."""
_NO_INSTRUCTION = (".", "//", "$", "{", "}", "(", ")")

Lines = dict[int, int]
"""Line of the code to line of the file that Triton compiled, both from 1."""


def source_lines(stage: str, code: str, source: str) -> tuple[tuple[int, int], ...]:
    """Return pairs of a line of the code and the line of the kernel's source behind it, in order."""
    readers = {"ptx": _of_ptx, "llir": _of_llir, "ttir": _of_mlir, "ttgir": _of_mlir}
    reader = readers.get(stage)
    if reader is None:
        return ()
    found, begins, name = reader(code.split("\n"))
    first = _first_line(source, name)
    if begins is None or first is None:
        return ()
    moved = begins - first
    last = source.count("\n") + 1
    return tuple((at, line - moved) for at, line in sorted(found.items()) if 0 < line - moved <= last)


def _first_line(source: str, name: str) -> int | None:
    """Return the line at which a function of the source begins."""
    begin = re.compile(rf"^def {re.escape(name)}\(")
    return next((at for at, line in enumerate(source.split("\n"), 1) if begin.match(line)), None)


def _of_ptx(lines: list[str]) -> tuple[Lines, int | None, str]:
    """Read `.loc FILE LINE COLUMN`, which holds until the next one; a comment names the callers of an inlined line."""
    found: Lines = {}
    name, begins, file, now = "", None, "", 0
    for at, line in enumerate(lines, 1):
        text = line.strip()
        if ".entry" in text:
            name = text.partition(".entry")[2].strip().partition("(")[0]
        if match := _PTX_LOC.match(line):
            if begins is None and name:
                file, begins = match[1], int(match[2])
            now = int(match[2]) if match[1] == file else _caller(match[4])
        elif now and text and not text.startswith(_NO_INSTRUCTION):
            found[at] = now
        if text.startswith("}") and begins is not None and line.startswith("}"):
            break
    return found, begins, name


def _caller(comment: str) -> int:
    """Return the line of the outermost caller in `helpers.py:182:29 @[ kernel.py:40:37 ]`; 0 if there is none."""
    match = _CALLER.search(comment)
    if match and "@[" in comment:
        return int(match[2])
    return 0


def _of_llir(lines: list[str]) -> tuple[Lines, int | None, str]:
    """Read `!dbg !N`, the location of N, and where a location was inlined."""
    where: dict[str, tuple[int, str]] = {}
    functions: dict[str, int] = {}
    for line in lines:
        if match := _LOCATION.match(line):
            where[match[1]] = int(match[2]), match[3] or ""
        elif match := _SUBPROGRAM.match(line):
            functions[match[1]] = int(match[2])
    found: Lines = {}
    name, begins = "", None
    for at, line in enumerate(lines, 1):
        match = _DEBUG.search(line)
        if match is None:
            continue
        if line.startswith("define "):
            name, begins = line.partition("@")[2].partition("(")[0], functions.get(match[1])
        elif outer := _outermost(where, match[1]):
            found[at] = outer
    return found, begins, name


def _outermost(where: dict[str, tuple[int, str]], id_: str) -> int:
    line = 0
    for _ in range(_DEEPEST):
        if id_ not in where:
            break
        line, id_ = where[id_]
    return line


def _of_mlir(lines: list[str]) -> tuple[Lines, int | None, str]:
    """Read `loc(#locN)` at the end of a line, and the definition of N, which may name other locations."""
    known = {match[1]: match[2] for line in lines if (match := _LOC.match(line))}
    found: Lines = {}
    name, begins = "", None
    for at, line in enumerate(lines, 1):
        match = _LAST.search(line)
        if match is None or line.startswith("#loc"):
            continue
        resolved = _resolved(known, match[1])
        if "tt.func" in line:
            name, begins = _function(line), resolved
        elif resolved:
            found[at] = resolved
    if begins is None:
        name, begins = next(_heads(lines, known), ("", None))
    return found, begins, name


def _heads(lines: list[str], known: dict[str, str]) -> Iterator[tuple[str, int | None]]:
    """Yield the function and the line at which it begins; its location follows its body."""
    for line in lines:
        if "tt.func" in line:
            yield _function(line), _resolved(known, "#loc")


def _function(line: str) -> str:
    return line.partition("@")[2].partition("(")[0]


def _resolved(known: dict[str, str], id_: str) -> int | None:
    """Return the line of a location; for a call, the caller's; for fused locations, the first one's."""
    for _ in range(_DEEPEST):
        text = known.get(id_, "")
        if match := _FILE.match(text):
            return int(match[1])
        names = _REFERENCE.findall(text)
        if not names:
            return None
        id_ = names[-1] if text.startswith("callsite") else names[0]
    return None
