"""Query the guards of a run: what they check, which line created them, and what they cost (`guards_document`).

`tensor_guards` parses a tensor's guard, and describes its strides.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.errors import SelectionError, TargetError
from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.guard_facts import Guard, GuardCost, GuardNode, GuardTree, LeftOut
from ctrace.inspector.facts.session import Compilation, RunDocument, Scenario, Session
from ctrace.inspector.findings.guard_tree import completed, count, latency_of, parse, with_frames
from ctrace.inspector.findings.kernels.kernel_view import suggestion
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.source_names import user_name

_CHECKED = re.compile(
    r"check_tensor\((?P<source>.*), (?P<type>\w+), DispatchKeySet\((?P<keys>[^)]*)\), torch\.(?P<dtype>\w+), "
    r"device=(?P<device>None|\d+), requires_grad=(?P<grad>True|False), size=\[(?P<size>[^\]]*)\], "
    r"stride=\[(?P<stride>[^\]]*)\]\)"
)
_NUMBER = re.compile(r"\s*\d{1,19}\s*")
_PARAMETERS = re.compile(r"\b_(?:parameters|buffers)\b")
Numbers = tuple[int | None, ...]
"""Sizes or strides; None stands for one that may vary."""


class TensorGuard(Struct, frozen=True):
    """The properties of a tensor that a guard checks."""

    JSON: ClassVar[str] = (
        "kind=guard.kind code=guard.code source=guard.source name file=guard.place.file|relative "
        "line=guard.place.line hint=guard.hint class=type dtype device requires_grad dispatch_keys ndim sizes strides "
        "layout parameter=is_parameter"
    )
    guard: Guard
    name: str
    type: str
    dtype: str
    device: str
    """Device type and index; a device of which there is only one has no index."""
    requires_grad: bool
    dispatch_keys: tuple[str, ...]
    sizes: Numbers
    strides: Numbers
    layout: str
    """What the strides mean, in a few words."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def is_parameter(self) -> bool:
        """Whether the tensor is a parameter or a buffer of a module."""
        return self.type == "Parameter" or _PARAMETERS.search(self.guard.source) is not None


def tensor_guards(guards: Iterable[Guard]) -> tuple[TensorGuard, ...]:
    """Parse the guards on tensors; skip guards in an unknown form."""
    found = ((guard, _CHECKED.match(guard.code)) for guard in guards if guard.kind == "TENSOR_MATCH")
    return tuple(_read(guard, match) for guard, match in found if match is not None)


def _read(guard: Guard, match: re.Match[str]) -> TensorGuard:
    sizes, strides = _numbers(match["size"]), _numbers(match["stride"])
    keys = tuple(key.strip() for key in match["keys"].split(","))
    return TensorGuard(
        guard=guard,
        name=user_name(match["source"]),
        type=match["type"],
        dtype=match["dtype"],
        device=_device(keys, match["device"]),
        requires_grad=match["grad"] == "True",
        dispatch_keys=keys,
        sizes=sizes,
        strides=strides,
        layout=meaning(sizes, strides),
    )


_DEVICES = ("CPU", "CUDA", "MPS", "XPU", "HPU", "XLA", "Meta")


def _device(keys: tuple[str, ...], index: str) -> str:
    # The guard has the device's index alone; its kind is at the end of dispatch keys, such as AutogradCUDA.
    name = next((each for each in _DEVICES if any(key.endswith(each) for key in keys)), "?").lower()
    if index == "None":
        return name
    return f"{name}:{index}"


def _numbers(text: str) -> Numbers:
    return tuple(int(each) if _NUMBER.fullmatch(each) else None for each in text.split(",") if each.strip())


def meaning(sizes: Numbers, strides: Numbers) -> str:
    """Describe the memory layout that the strides give these sizes."""
    if len(sizes) != len(strides) or not sizes:
        if sizes:
            return "strides not checked"
        return "a single value"
    # The stride of a dimension of size 1 is never used, and says nothing.
    expanded = [index for index, stride in enumerate(strides) if stride == 0 and sizes[index] != 1]
    if expanded:
        return f"expanded: dimension {_listed(expanded)} repeats the same memory"
    # From the outermost dimension to the innermost; a dynamic stride is outside of fixed ones.
    order = sorted(range(len(sizes)), key=lambda index: (-_wide(strides[index]), index))
    gap = _gap(sizes, strides, order)
    if gap is not None:
        return f"not dense: dimension {gap} skips memory of a larger tensor, as in a slice"
    if varying := [index for index, stride in enumerate(strides) if stride is None]:
        return f"dimension {_listed(varying)} may vary, within the relations that torch checks last"
    if order == sorted(order) or _only_ones_move(sizes, order):
        return "contiguous"
    if len(sizes) in (4, 5) and order == [0, *range(2, len(sizes)), 1]:
        return "channels last"
    return f"dense, dimensions in memory order {_listed(order)}: a transpose or permute"


def _wide(stride: int | None) -> float:
    if stride is None:
        return float("inf")
    return stride


def _gap(sizes: Numbers, strides: Numbers, order: list[int]) -> int | None:
    """Find a dimension whose stride is not the number of elements in the dimensions inside it.

    A fixed stride outside of a dimension of varying size counts, too. A size of 0 counts as 1.
    """
    step: int | None = 1
    inner_varies = False
    for index in reversed(order):
        stride, size = strides[index], sizes[index]
        if size == 1:
            continue
        if stride is not None and (inner_varies or (step is not None and stride != step)):
            return index
        inner_varies = stride is not None and size is None
        step = None  # what is not fixed cannot be compared further outside
        if stride is not None and size is not None:
            step = stride * max(size, 1)
    return None


def _only_ones_move(sizes: Numbers, order: list[int]) -> bool:
    moving = [index for index in order if sizes[index] != 1]
    return moving == sorted(moving)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


STATE = "torch's own state"
GLOBALS = "globals"


class Head(Struct, frozen=True):
    """A compilation that has guards, with their number."""

    compilation: Compilation
    number: int
    latency: float | None
    """The time of one check in microseconds, which torch measured once with cold caches."""

    @property
    def line(self) -> int:
        """The line at which the compiled code begins."""
        return self.compilation.resumes_at or self.compilation.line


class GuardFilter(Struct, frozen=True):
    """A filter for guards; an empty filter matches all guards."""

    name: str = ""
    """Part of a name in the user's code, such as `self.fc`."""
    kind: str = ""
    """Part of torch's name for the kind, in any case."""
    line: str = ""
    """`file.py:12`, or `12`."""

    def takes(self, guard: Guard) -> bool:
        """Whether a guard matches."""
        named = self.name in about(guard) or self.name in guard.code
        return named and self.kind.upper() in guard.kind and (not self.line or _is_at(guard.place, self.line))

    def __bool__(self) -> bool:
        """Whether this filters anything."""
        return bool(self.name or self.kind or self.line)


_ANY = GuardFilter()


class GuardedCompilation(Struct, frozen=True):
    """A compilation with its parsed guards."""

    JSON: ClassVar[str] = (
        "compilation=head.compilation.id function=head.compilation.function file=head.compilation.file|relative "
        "line=head.line latency_us=head.latency number guards=chosen tensors tree=whole_tree left_out cost "
        "unread=tree.unread misplaced=tree.is_misplaced"
    )
    head: Head
    tree: GuardTree
    guards: tuple[Guard, ...]
    left_out: tuple[LeftOut, ...]
    cost: GuardCost | None
    choice: GuardFilter = _ANY
    scenario: Scenario | None = None
    """The scenario of the call that compiled it; None for a program."""

    @property
    def number(self) -> int:
        """How many guards it has, selected or not."""
        return len(self.guards)

    @property
    def chosen(self) -> tuple[Guard, ...]:
        """The selected guards."""
        return tuple(guard for guard in self.guards if self.choice.takes(guard))

    @property
    def tensors(self) -> tuple[TensorGuard, ...]:
        """The selected guards on tensors in full."""
        return tensor_guards(self.chosen)

    @property
    def whole_tree(self) -> GuardNode | None:
        """The root of the tree; None if only some guards are selected."""
        if self.choice:
            return None
        return self.tree.root


class GuardsDocument(RunDocument, frozen=True, kw_only=True):
    """The guards of some compilations, those with most guards first."""

    JSON: ClassVar[str] = "schema verdict=run.verdict compilations problems=run.problems"
    compilations: tuple[GuardedCompilation, ...]
    others: tuple[Head, ...] = ()
    """Further compilations, whose guards are only counted."""
    listings: Mapping[str, str] = {}
    """Source text, keyed by file."""


def guards_document(
    session: Session, choice: GuardFilter = _ANY, graph: str | None = None, *, whole: bool = True
) -> GuardsDocument:
    """Answer for the compilations that have a selected guard: for all of them, or for the first one.

    Raises:
        TargetError: the run has no such compilation, or no such guard.
    """
    found = [head for head in heads(session) if graph in (None, head.compilation.id)]
    if graph is not None and not found:
        # A model of many layers has hundreds of compilations; a few show how an id looks.
        known = ", ".join(list(session.guards)[:8])
        raise TargetError(f"--graph {graph}: this run has no guards for it", f"there are: {known or 'none'}")
    having = _having(session, found, choice)
    shown = 1
    if whole:
        shown = len(having)
    return guards_of(session, having[:shown], having[shown:], choice)


def guards_of(
    session: Session, found: Sequence[Head], others: Sequence[Head] = (), choice: GuardFilter = _ANY
) -> GuardsDocument:
    """Answer for given compilations."""
    return GuardsDocument(
        run=session.run,
        compilations=tuple(guarded(session, head, choice) for head in found),
        others=tuple(others),
        listings=session.listings,
    )


def heads(session: Session) -> tuple[Head, ...]:
    """List the compilations with guards, most guards first."""
    found = [
        Head(each, count(printed.text), latency_of(printed.text))
        for each in session.compilations
        if (printed := session.guards.get(each.id)) is not None
    ]
    return tuple(sorted(found, key=lambda head: -head.number))


def _having(session: Session, found: Sequence[Head], choice: GuardFilter) -> tuple[Head, ...]:
    """Keep the compilations that have a guard that matches.

    Raises:
        TargetError: no guard matches.
    """
    if not choice:
        return tuple(found)
    guards = [guarded(session, head).guards for head in found]
    # Each filter alone first, so that the error names the one that matches nothing.
    _check_each(choice, [guard for each in guards for guard in each])
    return tuple(head for head, each in zip(found, guards, strict=True) if any(map(choice.takes, each)))


def _check_each(choice: GuardFilter, guards: Sequence[Guard]) -> None:
    known = {
        "name": [name for guard in guards if (name := about(guard))],
        "kind": [guard.kind for guard in guards],
        "line": [f"{PurePath(at.file).name}:{at.line}" for guard in guards if (at := guard.place)],
    }
    for option, names in known.items():
        value = getattr(choice, option)
        if value and not any(map(GuardFilter(**{option: value}).takes, guards)):
            todo = suggestion(value.upper() if option == "kind" else value, names)
            raise SelectionError(option, f"{value}: no guard of this run matches", todo)
    if not any(map(choice.takes, guards)):
        raise TargetError("no guard of this run matches all filters", "drop one of --name, --kind, --line")


def guarded(session: Session, head: Head, choice: GuardFilter = _ANY) -> GuardedCompilation:
    """Parse the guards of a compilation."""
    printed = session.guards[head.compilation.id]
    tree = parse(printed, session.environment.prefixes)
    if printed.stacks is None:
        files = _files(session)
        tree = with_frames(tree, lambda frame: completed(frame, files))
    scenario = next((one for one in session.scenarios if one.name == head.compilation.scenario), None)
    guards = tuple(tree.all_guards())
    return GuardedCompilation(head, tree, guards, printed.left_out, printed.cost, choice, scenario)


def _files(session: Session) -> tuple[str, ...]:
    files = [*session.listings, *(each.file for each in session.compilations)]
    return tuple(dict.fromkeys([*files, *(each.file for each in session.functions)]))


def about(guard: Guard) -> str:
    """Return the subject of a guard in the user's names."""
    if guard.source:
        return user_name(guard.source)
    return ""


def _is_at(place: Frame | None, line: str) -> bool:
    if place is None:
        return False
    file, _, number = line.rpartition(":")
    # The slash keeps `del.py:3` from matching `model.py:3`.
    return str(place.line) == number and (not file or f"/{place.file}".endswith(f"/{file}"))


def by_line(guards: Iterable[Guard]) -> tuple[tuple[Frame | None, tuple[Guard, ...]], ...]:
    """Group guards by the user's line that created them, most first; None for guards without such a line."""
    groups: dict[tuple[str, int] | None, list[Guard]] = {}
    for guard in guards:
        key = None
        if guard.place is not None:
            key = (guard.place.file, guard.place.line)
        groups.setdefault(key, []).append(guard)
    ordered = sorted(groups.values(), key=lambda members: -len(members))
    return tuple((members[0].place, tuple(members)) for members in ordered)


def by_kind(guards: Iterable[Guard]) -> tuple[tuple[str, int], ...]:
    """Count guards by kind, most first."""
    return tuple(Counter(guard.kind for guard in guards).most_common())


class GuardBranch(Struct, frozen=True):
    """Guards on an object, and on everything that is reached through the object."""

    name: str
    """One step, such as `self`, `.fc` or `[0..11]`."""
    number: int
    branches: tuple["GuardBranch", ...] = ()
    times: int = 1
    """How many identical objects this branch stands for; `number` counts the guards of one of them."""


_STEP = re.compile(r"\.?[^.\[\]]+|\[[^\]]*\]")
_ROOT = re.compile(r"\b(?P<scope>[LG])\['(?P<name>[^']+)'\]")


def by_object(guards: Iterable[Guard]) -> tuple[GuardBranch, ...]:
    """Group guards by the objects that they check, most first; identical layers are one branch."""
    top = _Count()
    for guard in guards:
        top.add(_way(guard))
    return top.branches()


def _way(guard: Guard) -> list[str]:
    root = _ROOT.search(guard.source)
    if root is None:
        return [STATE]
    name, first = user_name(guard.source), user_name(root[0])
    rest = ""
    if name.startswith(first) and "(" not in name:  # not for an expression, such as `len(self.layers)`
        rest = name.removeprefix(first)
    steps = [first, *_STEP.findall(rest)]
    if root["scope"] == "G":
        return [GLOBALS, *steps]
    return steps


class _Count:
    """A branch under construction."""

    def __init__(self) -> None:
        self.number = 0
        self._below: dict[str, _Count] = {}

    def add(self, steps: list[str]) -> None:
        self.number += 1
        if steps:
            self._below.setdefault(steps[0], _Count()).add(steps[1:])

    def branches(self) -> tuple[GuardBranch, ...]:
        found = [GuardBranch(name, count.number, count.branches()) for name, count in self._below.items()]
        # By all guards of a branch, so that twelve layers come before one large head.
        return tuple(sorted(_folded(found), key=lambda branch: -branch.number * branch.times))


def _folded(branches: list[GuardBranch]) -> list[GuardBranch]:
    """Merge list items with the same guards, such as the layers of a model, into one branch."""
    alike: dict[object, list[GuardBranch]] = {}
    for branch in branches:
        key: object = branch.name
        if branch.name.startswith("["):  # items of a list are alike if what is checked of them is
            key = (branch.number, branch.branches)
        alike.setdefault(key, []).append(branch)
    return [_one_of(members) for members in alike.values()]


def _one_of(members: list[GuardBranch]) -> GuardBranch:
    first = members[0]
    if len(members) == 1:
        return first
    name = _items_name([member.name.strip("[]") for member in members])
    return GuardBranch(name, first.number, first.branches, len(members))


def _items_name(names: list[str]) -> str:
    """Return `[0..11]` for items in a row, else the names of the first few."""
    numbers = []
    if all(name.isdecimal() for name in names):
        numbers = sorted(map(int, names))
    if numbers and numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"[{numbers[0]}..{numbers[-1]}]"
    more = ",…" if len(names) > 4 else ""
    return f"[{','.join(names[:4])}{more}]"


class GuardedConstant(Struct, frozen=True):
    """A plain value on which a graph is specialized."""

    guard: Guard
    subject: str
    value: str


def constants(guards: Iterable[Guard], prefixes: Mapping[str, str]) -> tuple[GuardedConstant, ...]:
    """List the values on which a graph is specialized, those that the user's code reads first."""
    found = []
    for guard in guards:
        subject, compared, value = guard.code.partition(" == ")
        # Guards on the order of keys have the same kind, and hold no constant of the code.
        if guard.kind == "EQUALS_MATCH" and compared and guard.place is not None and "dict.keys(" not in subject:
            found.append(GuardedConstant(guard, user_name(subject), value))
    return tuple(sorted(found, key=lambda each: _rank(each, prefixes)))


def _rank(constant: GuardedConstant, prefixes: Mapping[str, str]) -> tuple[bool, bool]:
    """Return a sort key: constants that the user's lines read first, and plain names before expressions."""
    place = constant.guard.place
    return place is None or owner_of(place.file, prefixes) is not Owner.USER, "(" in constant.subject


def place_text(frame: Frame | None) -> str:
    """Write `file.py:12`."""
    if frame is None:
        return ""
    return f"{PurePath(frame.file).name}:{frame.line}"
