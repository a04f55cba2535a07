"""Read the guard tree that torch prints (`GuardManagerWrapper.__str__`, _dynamo/guards.py, 2.11 to 2.13)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

from ctrace.inspector.model.findings import Frame, Owner
from ctrace.inspector.model.guards import Guard, GuardText, GuardTree, Node
from ctrace.inspector.source.owners import owner_of

_LINE = re.compile(r"(?P<bars>(?:\| )*)\+- (?P<rest>.*)")
_NODE = re.compile(
    r"(?:(?:Key|Value)Manager: )?\w*GuardManager: source=(?P<source>.*?)(?:, accessed_by=(?P<accessor>.*))?, "
    r"type=(?:<\w+ ')?(?P<type>.*?)(?:'>)?, tag_safe=\(\w+, \w+\)"
)
_GUARD = re.compile(r"(?P<kind>[A-Z][A-Z_0-9]+)(?:: (?P<code>.*))?")
_COMMENT = re.compile(r"(?P<file>[^\s#]+):(?P<line>\d{1,9}) in (?P<name>.+?)(?: \(HINT: (?P<hint>.*)\))?(?: \(.*)?$")
_DEEPEST = 150
"""Nodes on the way to a guard; a module within a module takes three. A tree that is walked must have some limit."""
_NOT_SAID: tuple[Frame, ...] = (Frame("", 0, ""),)
_LATENCY = re.compile(r"Guard latency = (?P<us>\d+(?:\.\d+)?) us")


def parse(printed: GuardText, prefixes: Mapping[str, str]) -> GuardTree:
    """Make a tree of torch's text; `prefixes` says whose code a file is."""
    top = _Open("L", "")
    stack: list[tuple[int, _Open]] = [(-1, top)]
    epilogue: list[Guard] = []
    fits = printed.stacks is None or len(printed.stacks) == len(_LEAF.findall(printed.text))
    stacks = iter(printed.stacks or () if fits else ())
    users = cache(lambda stack: _user_frame(stack or (), prefixes))
    unread = 0
    for line in printed.text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        depth, rest = len(match["bars"]) // 2, match["rest"]
        if depth > _DEEPEST:
            unread += 1
        elif rest == "RootGuardManager" or rest.startswith("KeyValueManager pair"):
            _climb(stack, depth)
            stack.append((depth, stack[-1][1]))
        elif node := _NODE.fullmatch(rest):
            _climb(stack, depth)
            opened = _Open(node["source"], node["type"], node["accessor"] or "")
            stack[-1][1].nodes.append(opened)
            stack.append((depth, opened))
        elif guard := _GUARD.fullmatch(rest):
            _climb(stack, depth)
            owner = stack[-1][1]
            made_at = next(stacks, _NOT_SAID)
            if guard["code"] is not None:  # else only named again: a guard on several values hangs on each of them
                made = _guard(guard["kind"], guard["code"], owner.source)
                if made_at is not _NOT_SAID:
                    made = replace(made, place=users(made_at))
                _keep(made, owner.guards if depth else epilogue)
        else:
            unread += 1
    return GuardTree(top.closed(), tuple(epilogue), unread, not fits)


def count(text: str) -> int:
    """Count the guards of a printed tree without reading it."""
    kinds: list[str] = [match["kind"] for match in _ANY.finditer(text)]
    marks = sum(kind == before == _MARKS for kind, before in pairwise(kinds))
    return len(kinds) - marks


_LEAF = re.compile(r"^(?:\| )*\+- [A-Z][A-Z_0-9]+(?::|$)", re.MULTILINE)
_ANY = re.compile(r"^(?:\| )*\+- (?P<kind>[A-Z][A-Z_0-9]+): ", re.MULTILINE)


def latency_of(text: str) -> float | None:
    """Give what torch measured of one check, in microseconds."""
    found = _LATENCY.search(text)
    return float(found["us"]) if found else None


@dataclass
class _Open:
    """A node that is still being read."""

    source: str
    type: str
    accessor: str = ""
    guards: list[Guard] = field(default_factory=list)
    nodes: list["_Open"] = field(default_factory=list)

    def closed(self) -> Node:
        return Node(self.source, self.type, self.accessor, tuple(self.guards), tuple(n.closed() for n in self.nodes))


def _climb(stack: list[tuple[int, _Open]], depth: int) -> None:
    while stack[-1][0] >= depth:
        stack.pop()


def _user_frame(stack: tuple[Frame, ...], prefixes: Mapping[str, str]) -> Frame | None:
    """Take the innermost frame of the user's code, else of a library's; torch's own lines tell nothing."""
    by_owner = {owner_of(frame.file, prefixes): frame for frame in stack}
    return by_owner.get(Owner.USER) or by_owner.get(Owner.LIBRARY)


_MARKS = "DIMENSION_DYNAMIC_MARKING_GUARD"


def _keep(guard: Guard, guards: list[Guard]) -> None:
    """Add a guard; the one on marks of dimensions is printed as a line for each kind of mark."""
    last = guards[-1] if guards else None
    if last is not None and guard.kind == last.kind == _MARKS and guard.source == last.source:
        guards[-1] = replace(last, code=f"{last.code} and {guard.code}")
    else:
        guards.append(guard)


def _guard(kind: str, text: str, source: str) -> Guard:
    code, _, comment = text.partition("  # ")
    place, hint = read_comment(comment)
    return Guard(kind, code.strip(), "" if source == "L" else source, place, hint)


def read_comment(comment: str) -> tuple[Frame | None, str]:
    """Read `SOURCE  # FILE:LINE in NAME (HINT: ...)`: place and hint; torch cuts the beginning off file names.

    Without the source it is a place in torch itself (`get_verbose_code_part`, _dynamo/guards.py:805, 2.13).
    """
    source, told, where = comment.rpartition("  # ")
    match = _COMMENT.search(where)
    if match is None:
        return None, ""
    place = Frame(match["file"], int(match["line"]), match["name"], source.strip()) if told else None
    return place, match["hint"] or ""


def completed(frame: Frame, files: Iterable[str]) -> Frame:
    """Find the one known file that ends as torch's shortened name does."""
    ends = [file for file in dict.fromkeys(files) if file.endswith(frame.file)]
    return replace(frame, file=ends[0]) if len(ends) == 1 else frame


def with_frames(tree: GuardTree, complete: Callable[[Frame], Frame]) -> GuardTree:
    """Replace the place of every guard, such as to complete file names that torch cut."""
    return replace(tree, root=_with(tree.root, complete), epilogue=tuple(_moved(g, complete) for g in tree.epilogue))


def _with(node: Node, complete: Callable[[Frame], Frame]) -> Node:
    guards = tuple(_moved(guard, complete) for guard in node.guards)
    return replace(node, guards=guards, nodes=tuple(_with(each, complete) for each in node.nodes))


def _moved(guard: Guard, complete: Callable[[Frame], Frame]) -> Guard:
    return guard if guard.place is None else replace(guard, place=complete(guard.place))
