"""Find the kernels that a user line compiled to, or why there are none, and show their code beside the user's lines.

With `--build` or `--target`, compiled code is beside it, too: Triton keeps the line of each operation in every stage.
Lines are those of `Kernel.source`, which lacks the line breaks before the first statement, so the first line of the
function shows the offset between the two counts. An operation of an inlined helper has the line that calls the helper.
A binary has no lines here: the disassembly does not print them.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError, TargetError
from ctrace.inspector.facts.fusion_facts import Node
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Kernel, Launch, Stage
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.graphs.fx import is_view, op_name
from ctrace.inspector.findings.graphs.graph_lines import NodesAtLine, is_file, lines, of_line
from ctrace.inspector.findings.kernels.kernel_view import (
    KernelNode,
    KernelOfPart,
    PartKernels,
    Work,
    added,
    parts,
    suggestion,
    work_of_launch,
)
from ctrace.inspector.findings.target_gpu_view import TargetDevice, target_device, target_sentence

_MOST_LINES = 200
"""The most lines of a range for which to search graphs."""
# Chosen: one line of a screen.
_MOST_OPS = 6


class Wanted(Struct, frozen=True):
    """The lines that the user requested, and the file, as the end of its path."""

    text: str
    file: str
    """The end of the file's path; empty matches any file."""
    first: int
    last: int

    def has(self, file: str, line: int) -> bool:
        """Whether a line matches."""
        return self.first <= line <= self.last and is_file(file, self.file)

    def has_place(self, place: str) -> bool:
        """Whether `file:line` matches."""
        file, _, line = place.rpartition(":")
        return line.isdecimal() and self.has(file, int(line))


class KernelAtLine(Struct, frozen=True):
    """The part of one kernel that comes from the requested lines."""

    JSON: ClassVar[str] = "*row calls_of_it=known_calls work_of_it=work nodes_of_it=own_nodes other_lines=others|places"
    row: KernelOfPart
    launches: tuple[Launch, ...]
    """Its calls that come from these lines; empty if not known."""
    nodes: tuple[Node, ...]
    """Scheduler nodes in the kernel that come from these lines."""
    others: tuple[str, ...]
    """The other lines in the kernel, as `file:line`."""

    @property
    def known_calls(self) -> int | None:
        """How many of its calls come from these lines; None: not known."""
        return len(self.launches) or None

    @property
    def own_nodes(self) -> tuple[KernelNode, ...]:
        """Its nodes, as JSON has them."""
        return tuple(map(KernelNode, self.nodes))

    @property
    def work(self) -> Work:
        """The bytes and operations of these calls."""
        if self.launches:
            return added(map(work_of_launch, self.launches))
        return self.row.work


class PartAtLine(Struct, frozen=True):
    """The kernels of a graph part that come from the requested lines."""

    part: PartKernels
    kernels: tuple[KernelAtLine, ...]


def wanted(text: str) -> Wanted:
    """Parse `LINE`, `FILE:LINE` or `FILE:LINE-LINE`.

    Raises:
        TargetError: the text has another form.
    """
    file, _, numbers = text.rpartition(":")
    first, _, last = numbers.partition("-")
    # The length is limited because `int` refuses thousands of digits.
    if not (first.isdecimal() and (last or first).isdecimal() and len(numbers) < 20):
        raise SelectionError("line", f"{text}: the line number is missing", "write FILE:LINE, FILE:LINE-LINE or LINE")
    return Wanted(text, file, int(first), int(last or first))


class LineDocument(RunDocument, frozen=True, kw_only=True):
    """The kernels that some lines compiled to."""

    JSON: ClassVar[str] = (
        "schema verdict target_gpu line=place.text kernels why_none=why|null_if_empty problems=run.problems"
    )
    target_gpu: TargetDevice | None
    target_sentence: str
    """What was generated for the target GPU; empty without one."""
    listings: Mapping[str, str]
    """Source text, keyed by file."""
    place: Wanted
    parts: tuple[PartAtLine, ...]
    why: str

    @property
    def kernels(self) -> tuple[KernelAtLine, ...]:
        """The kernels of all graph parts."""
        return tuple(each for part in self.parts for each in part.kernels)


def line_document(session: Session, line: str, graph: str | None = None, stage: str | None = None) -> LineDocument:
    """Answer for some lines, in all graph parts or in those of a graph or a stage.

    Raises:
        TargetError: the run does not have the file, or there is no kernel and it is not known why.
    """
    found = parts(session, graph, stage)
    place = wanted(line)
    check_file(session, place)
    of_lines = kernels_of(found, place)
    why = "" if of_lines else why_none(session, place, graph)
    if not of_lines and not why:
        raise SelectionError("line", f"{line}: no kernel contains it", nearest(found, place))
    return LineDocument(
        run=session.run,
        target_gpu=target_device(session),
        target_sentence=target_sentence(session),
        listings=session.listings,
        place=place,
        parts=of_lines,
        why=why,
    )


def some_at_line(session: Session, line: str, graph: str | None, stage: str | None) -> tuple[PartAtLine, ...]:
    """Return the kernels of some source lines.

    Raises:
        TargetError: there are none, or the run does not have the file.
    """
    found = line_document(session, line, graph, stage)
    if not found.parts:
        raise SelectionError("line", f"{line}: no kernel contains it", found.why)
    return found.parts


def kernels_of(found: Sequence[PartKernels], place_range: Wanted) -> tuple[PartAtLine, ...]:
    """Find the kernels that come from some lines, graph part by graph part."""
    by_part = (PartAtLine(part, tuple(_at(part, place_range))) for part in found)
    return tuple(each for each in by_part if each.kernels)


def _at(part: PartKernels, place_range: Wanted) -> Iterator[KernelAtLine]:
    for row in part.rows:
        yield from _of_row(row, place_range)


def _of_row(row: KernelOfPart, place_range: Wanted) -> Iterator[KernelAtLine]:
    launches = tuple(launch for launch in row.kernel.launches if any(map(place_range.has_place, launch.lines)))
    # A kernel may have the line although no single call is known to.
    if not launches and not any(map(place_range.has_place, row.kernel.lines)):
        return
    # Where no single call has lines, as in torch's own log, those of the kernel hold for all of its calls.
    inside = launches or row.kernel.launches
    operations = {operation for launch in inside for operation in launch.operations}
    nodes = tuple(
        node
        for node in row.nodes
        if any(map(place_range.has_place, node.lines)) and not operations.isdisjoint(node.operations)
    )
    places = dict.fromkeys(place for launch in launches for place in launch.lines) or dict.fromkeys(row.kernel.lines)
    yield KernelAtLine(row, launches, nodes, tuple(place for place in places if not place_range.has_place(place)))


def check_file(session: Session, place_range: Wanted) -> None:
    """Refuse a file that the run does not have.

    Raises:
        TargetError: the run does not have the file.
    """
    known = list(dict.fromkeys(_files(session)))
    if not any(is_file(file, place_range.file) for file in known):
        name = place_range.file.rpartition("/")[2]
        names = [file.rpartition("/")[2] for file in known]
        raise SelectionError("line", f"{place_range.text}: this run has no such file", suggestion(name, names))


def _files(session: Session) -> Iterator[str]:
    for kernel in session.kernels:
        yield from (place.rpartition(":")[0] for place in kernel.lines)
    yield from (at.file for at in lines(session, None))
    for found in (session.compilations, session.functions, session.breaks, session.skips):
        yield from (each.file for each in found)
    yield from session.listings


def why_none(session: Session, place_range: Wanted, graph: str | None) -> str:
    """Explain in sentences why no kernel comes from some lines; empty if not known."""
    # A break or a skip explains more than what the graphs around it still have of the line.
    reasons = [
        f"The graph breaks here: {each.reason}" for each in session.breaks if place_range.has(each.file, each.line)
    ]
    reasons += [
        f"`{each.function}` runs eagerly. {each.reason}"
        for each in session.skips
        if is_file(each.file, place_range.file) and _contains(session, each.file, each.line, place_range)
    ]
    return " ".join(dict.fromkeys(reasons or _in_graphs(session, place_range, graph)))


def _contains(session: Session, file: str, line: int, place_range: Wanted) -> bool:
    """Whether the source of the function that begins at a line contains all requested lines."""
    try:
        tree = ast.parse(session.listings.get(file, ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    # Dynamo names a function by `co_firstlineno`, which is the line of its first decorator.
    begin = ((min([node.lineno, *(each.lineno for each in node.decorator_list)]), node) for node in functions)
    return any(
        line in (first, node.lineno) and first <= place_range.first and place_range.last <= (node.end_lineno or 0)
        for first, node in begin
    )


def _in_graphs(session: Session, place_range: Wanted, graph: str | None) -> Iterator[str]:
    """Describe the last stage of each graph in which the lines have nodes."""
    seen: dict[str, list[NodesAtLine]] = {}
    for number in range(place_range.first, min(place_range.last, place_range.first + _MOST_LINES) + 1):
        for each in of_line(session, f"{place_range.file}:{number}", graph):
            seen.setdefault(each.each.id, []).append(each)
    for id_, stages in seen.items():
        yield f"{id_}: {_fate(stages)}"


def _fate(stages: Sequence[NodesAtLine]) -> str:
    # Only in Inductor's last graph can an op still get a kernel; before it, a later pass may have removed the op.
    final = [each for each in stages if each.staged.stage is GraphStage.POST_GRAD]
    last = stages[-1].staged
    nodes = [node for each in final or stages[-1:] for node in each.nodes]
    names = dict.fromkeys(op_name(node).removeprefix("aten.") for node in nodes)
    ops = ", ".join(list(names)[:_MOST_OPS])
    if last.is_traced:
        return f"Dynamo traced it ({ops}), but it has no aten ops: its result is unused, or it was constant-folded."
    if all(map(is_view, nodes)):
        return f"only views remain ({ops}); they move no data, so they need no kernel."
    if final:
        return f"its ops ({ops}) are in the final graph; torch does not record which kernel computes them."
    return f"its last stage is {last.label} ({ops}); a later pass removed or replaced it."


def nearest(found: Sequence[PartKernels], place_range: Wanted) -> str:
    """Describe up to eight lines with kernels that are nearest, in the same file if possible."""
    rows = [row for part in found for row in part.rows]
    places = dict.fromkeys(place for row in rows for place in row.kernel.lines)
    split = [(file, int(line)) for file, _, line in (place.rpartition(":") for place in places) if line.isdecimal()]
    inside = [each for each in split if is_file(each[0], place_range.file)] or split
    closest = sorted(sorted(inside, key=lambda each: abs(each[1] - place_range.first))[:8])
    names = ", ".join(f"{PurePath(file).name}:{line}" for file, line in closest)
    if names:
        return f"lines with kernels: {names}"
    return "no line of your code has known kernels"


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


class WrapperCode(Struct, frozen=True):
    """The function of a graph part that calls each kernel with its arguments."""

    JSON: ClassVar[str] = "basis=BASIS graph stage wrapper=text"
    BASIS: ClassVar[Basis] = Basis.EMITTED
    graph: str
    stage: Stage
    text: str


def wrappers(session: Session, graph: str | None, stage: str | None) -> tuple[WrapperCode, ...]:
    """Return the wrapper of each graph part.

    Raises:
        TargetError: there is none.
    """
    found = (each for each in session.code if graph in (None, each.graph) and stage in (None, str(each.stage)))
    made = tuple(WrapperCode(each.graph, each.stage, _call(each.text)) for each in found)
    if not made:
        known = ", ".join(f"{code.graph} {code.stage}" for code in session.code[:8])
        todo = f"there is code for: {known}" if known else "the log has no code; run the model again with this ctrace"
        part = " ".join(each for each in (graph, stage) if each)
        raise TargetError(f"--wrapper: this run has no code{' for ' if part else ''}{part}", todo)
    return made


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
# Directives, comments, labels such as `$L__BB0_1:` and brackets.
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
    # Triton counts from the line of the file that it compiled, which has what Inductor writes above the kernel.
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
            # A line of another file is that of a helper; a comment names the line that calls it.
            now = int(match[2]) if match[1] == file else _caller(match[4])
        elif now and text and not text.startswith(_NO_INSTRUCTION):
            found[at] = now
        # The debug sections below would count as code.
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
        # These lines define locations, which may end in a location themselves.
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
