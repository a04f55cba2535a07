"""Parse the guard tree that torch prints (`parse`), and the forms of torch's text for a failed guard.

The tree is written by `GuardManagerWrapper.__str__` (_dynamo/guards.py, 2.11 to 2.13).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.findings import CauseKind, Frame, Owner
from ctrace.inspector.facts.guard_facts import Guard, GuardNode, GuardText, GuardTree, UnmetGuard
from ctrace.inspector.source.owners import owner_of

_LINE = re.compile(r"(?P<bars>(?:\| )*)\+- (?P<rest>.*)")
_NODE = re.compile(
    r"(?:(?:Key|Value)Manager: )?\w*GuardManager: source=(?P<source>.*?)(?:, accessed_by=(?P<accessor>.*))?, "
    r"type=(?:<\w+ ')?(?P<type>.*?)(?:'>)?, tag_safe=\(\w+, \w+\)"
)
_GUARD = re.compile(r"(?P<kind>[A-Z][A-Z_0-9]+)(?:: (?P<code>.*))?")
# A name may have any length: a pattern that searches for one starts at its beginning only.
_COMMENT = re.compile(
    r"(?<![^\s#])(?P<file>[^\s#]+):(?P<line>\d{1,9}) in (?P<name>.+?)(?: \(HINT: (?P<hint>.*)\))?(?: \(.*)?$"
)
_DEEPEST = 150
"""The deepest level to parse, which limits recursion over the tree. A module inside a module adds three levels."""
_UNKNOWN: tuple[Frame, ...] = (Frame("", 0, ""),)
_LATENCY = re.compile(r"Guard latency = (?P<us>\d+(?:\.\d+)?) us")


def parse(printed: GuardText, prefixes: Mapping[str, str]) -> GuardTree:
    """Parse torch's text into a tree; `prefixes` determines whether the user, a library or torch owns a file."""
    top = _Open("L", "")
    stack: list[tuple[int, _Open]] = [(-1, top)]
    epilogue: list[Guard] = []
    # One stack too few would move all later places to other guards, so none is used.
    fits = printed.stacks is None or len(printed.stacks) == len(_LEAF.findall(printed.text))
    stacks = iter(printed.stacks or () if fits else ())
    # Thousands of guards share a few stacks.
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
            # A guard belongs to the last node above it with less indentation.
            owner = stack[-1][1]
            made_at = next(stacks, _UNKNOWN)
            if (
                guard["code"] is not None
            ):  # A guard without code is a repetition: torch prints a guard on several values under each value.
                made = _guard(guard["kind"], guard["code"], owner.source)
                if made_at is not _UNKNOWN:
                    made = replace(made, place=users(made_at))
                # Torch prints what it checks after the tree, such as relations of sizes, without indentation
                # (`get_epilogue_lambda_guards`, _dynamo/guards.py, 2.13).
                _keep(made, owner.guards if depth else epilogue)
        else:
            unread += 1
    return GuardTree(top.closed(), tuple(epilogue), unread, not fits)


def count(text: str) -> int:
    """Count the guards of a printed tree without parsing it."""
    kinds: list[str] = [match["kind"] for match in _ANY.finditer(text)]
    marks = sum(kind == before == _MARKS for kind, before in pairwise(kinds))
    # Torch prints a line for each kind of mark on a tensor, and `_keep` merges them into one guard.
    return len(kinds) - marks


_LEAF = re.compile(r"^(?:\| )*\+- [A-Z][A-Z_0-9]+(?::|$)", re.MULTILINE)
_ANY = re.compile(r"^(?:\| )*\+- (?P<kind>[A-Z][A-Z_0-9]+): ", re.MULTILINE)


def latency_of(text: str) -> float | None:
    """Return the time that torch measured for one check, in microseconds."""
    found = _LATENCY.search(text)
    if not found:
        return None
    return float(found["us"])


class _Open(Struct):
    """A node that is not complete yet."""

    source: str
    type: str
    accessor: str = ""
    guards: list[Guard] = field(default_factory=list)
    nodes: list["_Open"] = field(default_factory=list)

    def closed(self) -> GuardNode:
        return GuardNode(
            self.source, self.type, self.accessor, tuple(self.guards), tuple(n.closed() for n in self.nodes)
        )


def _climb(stack: list[tuple[int, _Open]], depth: int) -> None:
    while stack[-1][0] >= depth:
        stack.pop()


def _user_frame(stack: tuple[Frame, ...], prefixes: Mapping[str, str]) -> Frame | None:
    """Return the innermost frame of the user's code, else of a library's code; ignore torch's frames."""
    # Frames are outermost first, so the innermost of each owner stays.
    by_owner = {owner_of(frame.file, prefixes): frame for frame in stack}
    return by_owner.get(Owner.USER) or by_owner.get(Owner.LIBRARY)


_MARKS = "DIMENSION_DYNAMIC_MARKING_GUARD"


def _keep(guard: Guard, guards: list[Guard]) -> None:
    """Append a guard; merge the guards on a tensor's marks, of which torch prints one line for each kind of mark."""
    last = None
    if guards:
        last = guards[-1]
    if last is not None and guard.kind == last.kind == _MARKS and guard.source == last.source:
        guards[-1] = replace(last, code=f"{last.code} and {guard.code}")
    else:
        guards.append(guard)


def _guard(kind: str, text: str, source: str) -> Guard:
    code, _, comment = text.partition("  # ")
    place, hint = read_comment(comment)
    return Guard(_purpose(kind, code), code.strip(), "" if source == "L" else source, place, hint)


_PURPOSES = {
    "___cow_tensor_matches(": "COW_TENSOR_MATCH",
    "___get_current_stream(": "CURRENT_STREAM_MATCH",
    "___list_reverseiterator_len(": "LIST_REVERSEITERATOR_LEN",
    "___normalize_count_iter(": "COUNT_ITERATOR_MATCH",
}
"""Torch's names for guards, keyed by the helper that a guard calls (`GuardBuilder`, _dynamo/guards.py, 2.13 and 2.15).
"""


def _purpose(kind: str, code: str) -> str:
    """Return torch's name for a guard's kind; torch prints only LAMBDA_GUARD for guards that run Python."""
    if kind != "LAMBDA_GUARD":
        return kind
    return next((name for helper, name in _PURPOSES.items() if helper in code), kind)


def read_comment(comment: str) -> tuple[Frame | None, str]:
    """Parse `SOURCE  # FILE:LINE in NAME (HINT: ...)` into place and hint; torch shortens file names at the front.

    If the source is missing, the place is in torch itself (`get_verbose_code_part`, _dynamo/guards.py:805, 2.13).
    """
    source, separator, where = comment.rpartition("  # ")
    match = _COMMENT.search(where)
    if match is None:
        return None, ""
    place = None
    if separator:
        place = Frame(match["file"], int(match["line"]), match["name"], source.strip())
    return place, match["hint"] or ""


_IN_TORCH = re.compile(
    r"(?:nn/(?:modules|parallel|attention|utils)|_dynamo|_higher_order_ops|_decomp|_refs)/|nn/\w+\.py$"
)
"""Files of torch that users' code runs through; torch names them from its own folder (`shorten_filename`, 2.13)."""


def completed(frame: Frame, files: Iterable[str]) -> Frame:
    """Complete torch's shortened file name: with the one known file that ends with it, or with torch's folder."""
    known = dict.fromkeys(files)
    ends = [file for file in known if file.endswith(frame.file)]
    # Two files that end alike, such as two `model.py`, leave the name as torch printed it: a wrong file is worse.
    if len(ends) == 1:
        return replace(frame, file=ends[0])
    if ends or _IN_TORCH.match(frame.file) is None:
        return frame
    folders = (file.rpartition("/torch/_dynamo/")[0] for file in known)
    folder = next(filter(None, folders), None)
    if folder:
        return replace(frame, file=f"{folder}/torch/{frame.file}")
    return frame


def with_frames(tree: GuardTree, complete: Callable[[Frame], Frame]) -> GuardTree:
    """Replace the place of every guard by the result of `complete`, such as the place with its full file name."""
    return replace(tree, root=_with(tree.root, complete), epilogue=tuple(_moved(g, complete) for g in tree.epilogue))


def _with(node: GuardNode, complete: Callable[[Frame], Frame]) -> GuardNode:
    guards = tuple(_moved(guard, complete) for guard in node.guards)
    return replace(node, guards=guards, nodes=tuple(_with(each, complete) for each in node.nodes))


def _moved(guard: Guard, complete: Callable[[Frame], Frame]) -> Guard:
    if guard.place is None:
        return guard
    return replace(guard, place=complete(guard.place))


PARAMETER_HINT = ". Guard failed on a parameter, "
TENSOR = re.compile(
    r"tensor '(?P<name>.*?)' (?:Tensor )?(?P<what>size|stride|dtype|device|layout|requires_grad|dispatch key set|rank)"
    r"(?: index)? mismatch(?: at index (?P<index>\d+))?\. "
    r"[Ee]xpected (?:device index to be )?(?P<was>.*?)(?:, actual (?P<now>.*))?$"
)
"""`TensorCheck::check_verbose`, torch/csrc/dynamo/guards.cpp (2.13)."""
EXPECTED_TENSOR = re.compile(
    r"expected type of '(?P<name>.*?)' to be a tensor type, ?'?(?P<was>\w+)?'? but found (?P<found>.*)$"
)


def size_kind(was: str, now: str) -> CauseKind:
    """Return `zero_one` for a size that changed to or from 0 or 1, because torch specializes on these; else `size`."""
    if {was, now} & {"0", "1"}:
        return CauseKind.ZERO_ONE
    return CauseKind.SIZE


def type_name(qualified: str) -> str:
    """Write a type as in a program: `list`, not `builtins.list`."""
    return qualified.removeprefix("builtins.").removeprefix("__main__.")


_NAME = r"[LG]\['[^']*'\](?:\['[^']*'\]|\[\d+\]|\.\w+)*?"
_SIZES = re.compile(rf"(?:{_NAME})\.(?:size|stride)\(\)\[\d+\]")
_NUMBER = re.compile(rf"(?:-?[\d.]+ <=? )?(?P<source>{_NAME})(?: (?:==|!=|<=?|>=?) -?[\d.]+(?:e[+-]?\d+)?)?$")


def sources_of(text: str) -> tuple[str, ...]:
    """Return torch's names for the sizes or the number in a guard, such as `L['x'].size()[0]` or `L['n']`."""
    match = TENSOR.match(text)
    if match is not None:
        index = match["index"]
        if index is None:
            return ()
        return (f"{match['name']}.{match['what']}()[{index}]",)
    if sizes := _SIZES.findall(text):
        return tuple(dict.fromkeys(sizes))
    compared = _NUMBER.match(text)
    if compared:
        return (compared["source"],)
    return ()


def tensor_of(text: str) -> str | None:
    """Return torch's name for the tensor that a guard checks."""
    match = TENSOR.match(text)
    if not match:
        return None
    return match["name"]


def check_order(guard: UnmetGuard) -> int:
    """Return the position of a guard in the order in which torch checks a tensor; other guards come last.

    A tensor where the entry has None fails first, as it would if the entry had another type of tensor.
    """
    if EXPECTED_TENSOR.match(guard.text) or _IS_NONE.search(guard.text):
        return 0
    match = TENSOR.match(guard.text)
    if match:
        return _TENSOR_ORDER.index(match["what"])
    return len(_TENSOR_ORDER)


_IS_NONE = re.compile(r" is None$")
_TENSOR_ORDER = ("type", "layout", "dispatch key set", "dtype", "device", "requires_grad", "rank", "size", "stride")
"""TensorCheck::check_verbose, torch/csrc/dynamo/guards.cpp (2.13)."""
