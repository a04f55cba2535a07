"""Where else a file writes the attributes that changed statements read: each of these lines must run in the proof.

`torch.where(c, h - self.center, h)` reads `self.center` in each call, though the branch before it read it on one side
only. A method that sets it to None, or to a tensor of another dtype, then tells the two programs apart, and so does a
class that derives from this one and has no center.

Reads Python without running it.
"""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from ctrace.inspector.facts.trial import Condition
from ctrace.inspector.source.attribute_writes import (
    FUNCTIONS,
    STORES,
    TENSOR_ATTRIBUTES,
    WritePlace,
    choices,
    has_body,
    is_none,
    is_self,
    keyword_of,
    last_name,
    places,
    statements,
)
from ctrace.inspector.source.known_values import known_to_be_there
from ctrace.inspector.source.text import parsed, replaced_lines

_NOT_HELD = frozenset(("", "torch", "F", "nn", "np", "math"))
"""Roots of a name that is no attribute of an object of the program."""


class _Read(Struct, frozen=True):
    """The attributes that changed statements read."""

    own: frozenset[str]
    """Of self."""
    others: frozenset[str]
    """Of other objects."""
    inner: frozenset[str]
    """Of those, the attributes of what self holds."""


def other_writers(file: str, before: str, after: str) -> Iterator[Condition]:
    """Yield the lines outside of a change that write what its statements read."""
    tree, new = parsed(before), parsed(after)
    lines = replaced_lines(before, after)
    if tree is None or new is None or not lines:
        return
    yield from _of_globals(file, tree, new, lines, replaced_lines(after, before))
    classes = _Classes(tree, lines)
    read = classes.with_methods(_read(new, replaced_lines(after, before)))
    if not read.own | read.others:
        return
    known = known_to_be_there(new, replaced_lines(after, before))
    safe = {each.removeprefix("self.") for each in known if each.startswith("self.")}
    every = [each for each in places(tree.body) if each.statement.lineno not in lines]
    for each in every:
        if not _is_of(each, read, classes):
            continue
        if each.write.removes and each.write.name in safe:
            continue
        if not each.function and not each.owner and each.is_certain and not each.write.removes:
            continue  # it has run when the calls begin; where it leaves None, another object may have been meant
        # A public method that a constructor calls may be called again, with other arguments.
        is_constructor = each.function == "__init__" or each.function.startswith("_")
        if each.owner and is_constructor and each.function in classes.constructing(each.owner):
            yield from _of_constructor(file, each, every, classes)
        else:
            yield Condition(file, each.statement.lineno, "")
    yield from classes.overriding(file, read.own)
    yield from classes.without(file, read.own - safe)


def _of_globals(
    file: str, tree: ast.Module, new: ast.Module, lines: Collection[int], changed: Collection[int]
) -> Iterator[Condition]:
    """Yield the lines of functions that set a global name which the changed statements read."""
    names = {
        each.id
        for each in ast.walk(new)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.lineno in changed
    }
    for function in _functions(tree):
        declared = {name for each in ast.walk(function) if isinstance(each, ast.Global) for name in each.names}
        for each in ast.walk(function):
            match each:
                # Without a `global` statement, the name would be a local one of the function.
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in names & declared:
                    if each.lineno not in lines:
                        yield Condition(file, each.lineno, "")


def _of_constructor(
    file: str, place: WritePlace, every: Iterable[WritePlace], classes: "_Classes"
) -> Iterator[Condition]:
    """Yield the line of a constructor unless it has run for each object whose method changes."""
    write, line = place.write, place.statement.lineno
    is_variant = place.owner in classes.deriving or place.owner not in classes.related
    if not write.is_own or (is_variant and place.is_certain):
        is_certain = place.is_certain and not write.is_choice
        yield Condition(file, line, "", constructed=place.owner if is_certain else "")
    elif write.name is not None and not write.keeps and (write.is_choice or not place.is_certain):
        # The only line that makes an attribute has run, since the attribute is there; of two, one has not.
        if place.owner in classes.related:
            owners = classes.related
        else:
            owners = {place.owner}
        mine = [each for each in every if each.owner in owners and each.write.is_own]
        alike = [each for each in mine if each.write.name == write.name]
        makes = [each for each in alike if each.function in classes.constructing(each.owner) and not each.write.keeps]
        if write.is_choice or place.owner in classes.deriving or len({each.statement.lineno for each in makes}) > 1:
            yield Condition(file, line, "")


def _is_of(place: WritePlace, read: _Read, classes: "_Classes") -> bool:
    """Whether a write may be one to what is read."""
    name, owner = place.write.name, place.owner
    if name is None:
        return not place.write.is_own or owner in classes.related
    if not place.write.is_own:
        return name in read.own | read.others
    if owner in classes.related and name in read.own:
        return True
    if place.function in classes.constructing(owner):
        is_doubtful = place.write.is_choice or not place.is_certain
        return name in read.inner and (is_doubtful or classes.varies(owner, name))
    return name in read.others and place.function != ""


# What is read


def _read(tree: ast.AST, lines: Collection[int]) -> _Read:
    """Return the attributes that statements on some lines read, also through a local name for one."""
    own: set[str] = set()
    others: set[str] = set()
    inner: set[str] = set()
    for changed in _changed_nodes(tree, lines):
        called = {id(each.func) for each in changed if isinstance(each, ast.Call)}
        for each in changed:
            match each:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                    own.add(name)
                case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
                    is_of_tensor = id(each) in called or name in TENSOR_ATTRIBUTES
                    root = "" if is_of_tensor else _root(value)
                    if root not in _NOT_HELD:
                        others.add(name)
                    if root == "self":
                        inner.add(name)
                case ast.Call(func=ast.Name(id="getattr"), args=[holder, ast.Constant(value=str(name)), *_]):
                    found = own if is_self(holder) else others
                    found.add(name)
                case ast.Subscript(value=ast.Attribute(attr=store), slice=ast.Constant(value=str(name))) if (
                    store in STORES
                ):
                    own.add(name)
    return _Read(frozenset(own - STORES), frozenset(others - STORES), frozenset(inner - STORES))


def _changed_nodes(tree: ast.AST, lines: Collection[int]) -> Iterator[list[ast.AST]]:
    """Yield, for each function, its nodes on some lines, and those of what the local names there stand for."""
    for function in _functions(tree):
        changed = [each for each in ast.walk(function) if getattr(each, "lineno", 0) in lines]
        if not changed:
            continue
        names = {each.id for each in changed if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        for value in _aliased(function, names - {"self"}):
            changed += ast.walk(value)
        yield changed


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS))


def _aliased(function: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """Yield what a function assigns to local names where that is an attribute, as in `center = self.center`."""
    for each in ast.walk(function):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
                yield from choices(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in names:
                yield from choices(value)
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if name in names:
                yield from choices(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                # A starred target makes the lengths differ.
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name) and target.id in names:
                        yield from choices(value)


def _root(node: ast.expr) -> str:
    """Return `m` for `m.layer` and `m.layers[0]`; empty: a chain of attributes begins with something else."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return node.id


# Classes


class _Classes:
    """The classes of a file, as they are related to those that a change touches."""

    def __init__(self, tree: ast.Module, lines: Collection[int]) -> None:
        self._every = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
        changed = {name for name, each in self._every.items() if _spans(each, lines)}
        below = self._below(changed)
        self.deriving = (below | self._above(below)) - changed - self._above(changed)
        """Those that derive from a changed one, and what these derive from beside it."""
        self.related = changed | self._above(changed) | self.deriving
        self._changed = changed
        self._tree = tree
        self._below_changed = below - changed

    def _above(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            cls = self._every.get(waiting.pop())
            if cls is None:
                continue
            for base in cls.bases:
                name = last_name(base)
                if name in self._every and name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def _below(self, names: set[str]) -> set[str]:
        return {name for name in self._every if self._above([name]) & names} - names

    def with_methods(self, read: _Read) -> _Read:
        """Add what the methods and properties read that a change names."""
        own, others, inner, seen = set(read.own), set(read.others), set(read.inner), set[str]()
        methods = [each for name in sorted(self.related) for each in self._every[name].body]
        while seen != own:
            seen = set(own)
            for each in methods:
                if isinstance(each, FUNCTIONS) and each.name in own:
                    inside = _read(each, range(each.lineno, (each.end_lineno or each.lineno) + 1))
                    own |= inside.own
                    others |= inside.others
                    inner |= inside.inner
        return _Read(frozenset(own), frozenset(others), frozenset(inner))

    def constructing(self, name: str) -> frozenset[str]:
        """Return the methods of a class that its constructor certainly calls, with the constructor."""
        cls = self._every.get(name)
        if cls is None:
            return frozenset()
        methods = {each.name: each for each in cls.body if isinstance(each, FUNCTIONS)}
        # The `__init__` that a dataclass is given calls `__post_init__`, and is not in the file.
        found, waiting = {"__init__", "__post_init__"}, ["__init__"]
        while waiting:
            method = methods.get(waiting.pop())
            for statement, is_certain in statements(method.body if method is not None else [], is_certain=True):
                if not is_certain or has_body(statement):
                    continue
                for each in ast.walk(statement):
                    match each:
                        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called)):
                            if called in methods and called not in found:
                                found.add(called)
                                waiting.append(called)
        return frozenset(found)

    def varies(self, name: str, attribute: str) -> bool:
        """Whether a class that one derives from writes an attribute, too."""
        above = self._above([name])
        return any(each.owner in above and each.write.name == attribute for each in places(self._tree.body))

    def overriding(self, file: str, names: Collection[str]) -> Iterator[Condition]:
        """Yield where a class that derives from a changed one gives an attribute another meaning."""
        for name in sorted(self._below_changed):
            for each in self._every[name].body:
                match each:
                    case ast.FunctionDef(name=found, body=[first, *_]) if found in names:
                        yield Condition(file, first.lineno, "")
                    case ast.Assign(targets=targets):
                        if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                            yield Condition(file, each.lineno, "", constructed=name)
                    case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr()) if found in names:
                        yield Condition(file, each.lineno, "", constructed=name)

    def without(self, file: str, names: frozenset[str]) -> Iterator[Condition]:
        """Yield the calls that make an object of a changed class with None for what the constructor keeps."""
        for cls in map(self._every.__getitem__, sorted(self._changed)):
            for position, parameter in _kept_parameters(cls, names):
                for place in _calls(self._tree.body):
                    inner = place.owner in self._below_changed and place.function == "__init__"
                    made = last_name(place.call.func)
                    is_base = made == "__init__" and inner
                    if not (is_base or made == cls.name or made in self._below_changed):
                        continue
                    given = next(iter(place.call.args[position : position + 1]), keyword_of(place.call, parameter))
                    if is_none(given):
                        yield Condition(file, place.line, "", constructed=place.owner if is_base else "")


class _CallPlace(Struct, frozen=True):
    call: ast.Call
    line: int
    owner: str
    function: str


def _calls(body: Iterable[ast.stmt], owner: str = "", function: str = "") -> Iterator[_CallPlace]:
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield from _calls(each.body, each.name)
        elif isinstance(each, FUNCTIONS):
            yield from _calls(each.body, owner, function or each.name)
        else:
            for below in ast.walk(each):
                if isinstance(below, ast.Call):
                    yield _CallPlace(below, each.lineno, owner, function)


def _kept_parameters(cls: ast.ClassDef, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the parameters of a constructor that become attributes of some names, with their positions."""
    for method in cls.body:
        if isinstance(method, FUNCTIONS) and method.name == "__init__":
            positions = [one.arg for one in (*method.args.posonlyargs, *method.args.args)][1:]
            for each in ast.walk(method):
                match each:
                    case ast.Assign(targets=[target], value=ast.Name(id=given)):
                        if {f"self.{name}" for name in names} & {ast.unparse(target)}:
                            # A parameter behind `*` has no position, so no positional argument is it.
                            yield positions.index(given) if given in positions else sys.maxsize, given


def _spans(node: ast.stmt, lines: Collection[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)
