"""Where else a file writes the attributes that changed statements read: each of these lines must run in the proof.

`torch.where(c, h - self.center, h)` reads `self.center` in each call, though the branch before it read it on one side
only. A method that sets it to None, or to a tensor of another dtype, then tells the two programs apart, and so does a
class that derives from this one and has no center.

Reads Python without running it.
"""

import ast
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from ctrace.inspector.facts.trial import Condition
from ctrace.inspector.features.fix.repairs.repair_texts import replaced_lines
from ctrace.inspector.source.text import parsed

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KEEPING = frozenset(("append", "extend", "insert", "update", "pop", "popitem", "clear", "remove", "setdefault", "add"))
"""Methods that change a container; of tensors, each method whose name ends with `_` writes."""
_STORES = frozenset(("__dict__", "_buffers", "_parameters", "_modules"))
"""Where an object keeps its attributes by name."""
_REGISTERING = frozenset(
    ("register_buffer", "register_parameter", "register_module", "add_module", "set_submodule", "__setattr__")
) | {"__delattr__"}
"""Methods that set an attribute whose name is an argument."""
_RENEWING = frozenset(
    ("setattr", "delattr", "register_parametrization", "remove_parametrizations", "weight_norm", "spectral_norm")
) | {"remove_weight_norm", "remove_spectral_norm"}
"""Functions that set an attribute of their first argument; the second is its name."""
_HEADER = frozenset(("shape", "dtype", "device", "ndim", "data", "grad", "T", "mT", "H", "real", "imag", "layout"))
"""Attributes of a tensor, which no class of the file writes."""
_RESHAPING = frozenset(("resize_", "set_", "resize_as_"))


def writes(method: str) -> bool:
    """Whether a method of this name changes what it is called on."""
    return (method.endswith("_") and not method.endswith("__")) or method in _KEEPING


class _Read(Struct, frozen=True):
    """The attributes that changed statements read."""

    own: frozenset[str]
    """Of self."""
    others: frozenset[str]
    """Of other objects."""


class _Write(Struct, frozen=True):
    """One place that writes an attribute."""

    name: str | None
    """None: only a run can tell."""
    is_own: bool
    """Whether it is one of self."""
    keeps: bool = False
    """Whether it changes no more than values: the attribute is the same tensor as before."""
    removes: bool = False
    """Whether there is nothing, or None, behind it; also where it is only one of two choices."""
    is_choice: bool = False
    """Whether it is None or something else, as in `self.n = n if wide else None`."""


class _Place(Struct, frozen=True):
    """A statement that writes, and where it stands."""

    statement: ast.stmt
    write: _Write
    owner: str = ""
    """The class; empty: none."""
    function: str = ""
    """The outermost function; empty: none."""
    is_certain: bool = True
    """Whether the statement runs whenever its function does."""


def other_writers(file: str, before: str, after: str) -> Iterator[Condition]:
    """Yield the lines outside of a change that write what its statements read."""
    tree, new = parsed(before), parsed(after)
    lines = replaced_lines(before, after)
    if tree is None or new is None or not lines:
        return
    read = _read(new, replaced_lines(after, before))
    if not read.own | read.others:
        return
    classes = _Classes(tree, lines)
    safe = _safe(new, replaced_lines(after, before))
    found = [each for each in _places(tree.body) if each.statement.lineno not in lines]
    found = [each for each in found if _is_of(each, read, classes)]
    for each in found:
        if each.write.removes and each.write.name in safe:
            continue
        if not each.function and not each.owner and each.is_certain:
            continue  # it has run when the calls begin
        if each.owner and each.function in classes.constructing(each.owner):
            yield from _of_constructor(file, each, found, classes)
        else:
            yield Condition(file, each.statement.lineno, "")
    yield from classes.overriding(file, read.own)


def _of_constructor(file: str, place: _Place, every: Iterable[_Place], classes: "_Classes") -> Iterator[Condition]:
    """Yield the line of a constructor unless it has run for each object whose method changes."""
    write, line = place.write, place.statement.lineno
    if not write.is_own or place.owner in classes.deriving:
        is_certain = place.is_certain and not write.is_choice
        yield Condition(file, line, "", constructed=place.owner if is_certain else "")
    elif write.name is not None and not write.keeps and (write.is_choice or not place.is_certain):
        # The only line that makes an attribute has run, since the attribute is there; of two, one has not.
        alike = [each for each in every if each.write.name == write.name and each.write.is_own]
        makes = [each for each in alike if each.function in classes.constructing(each.owner) and not each.write.keeps]
        if write.is_choice or len({each.statement.lineno for each in makes}) > 1:
            yield Condition(file, line, "")


def _is_of(place: _Place, read: _Read, classes: "_Classes") -> bool:
    """Whether a write may be one to what is read."""
    name, owner = place.write.name, place.owner
    if name is None:
        return not place.write.is_own or owner in classes.related
    if not place.write.is_own:
        return name in read.own | read.others
    if owner in classes.related and name in read.own:
        return True
    return name in read.others and place.function not in ("", "__init__", "__post_init__", "__new__")


# What is read


def _read(tree: ast.Module, lines: Collection[int]) -> _Read:
    """Return the attributes that statements on some lines read, also through a local name for one."""
    own: set[str] = set()
    others: set[str] = set()
    for function in _functions(tree):
        changed = [each for each in ast.walk(function) if getattr(each, "lineno", 0) in lines]
        if not changed:
            continue
        names = {each.id for each in changed if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        for value in _aliased(function, names - {"self"}):
            changed += ast.walk(value)
        called = {id(each.func) for each in changed if isinstance(each, ast.Call)}
        for each in changed:
            match each:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                    own.add(name)
                case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
                    is_plain = id(each) not in called and name not in _HEADER and _is_chain(value)
                    others |= {name} if is_plain else set()
                case ast.Call(func=ast.Name(id="getattr"), args=[holder, ast.Constant(value=str(name)), *_]):
                    (own if _is_self(holder) else others).add(name)
                case ast.Subscript(value=ast.Attribute(attr=store), slice=ast.Constant(value=str(name))):
                    own |= {name} if store in _STORES else set()
    return _Read(frozenset(own - _STORES), frozenset(others - _STORES))


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS))


def _aliased(function: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """Yield what a function assigns to local names where that is an attribute, as in `center = self.center`."""
    for each in ast.walk(function):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
                yield from _choices(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in names:
                yield from _choices(value)
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if name in names:
                yield from _choices(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name) and target.id in names:
                        yield from _choices(value)


def _choices(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from _choices(body)
            yield from _choices(orelse)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _choices(each)
        case ast.Attribute() | ast.Subscript() | ast.Constant() | ast.Call(func=ast.Name(id="getattr")):
            yield value


def _is_none(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_chain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in ("torch", "F", "nn", "np", "math")


# What cannot be None where it is read


def _safe(tree: ast.Module, lines: Collection[int]) -> set[str]:
    """Return the attributes of self that the changed statements find there, or raise as before.

    An enclosing `if self.n is not None:` lets nothing else through, nor does `if self.n is None: return` above, and
    `x * self.n` above raises for None in both programs.
    """
    found: set[str] | None = None
    for function in _functions(tree):
        if any(each.lineno in lines for each in ast.walk(function) if isinstance(each, ast.stmt)):
            here = _safe_in(function.body, lines, set())  # type: ignore[attr-defined]
            found = here if found is None else found & here
    return found or set()


def _safe_in(body: list[ast.stmt], lines: Collection[int], known: set[str]) -> set[str]:
    """Return what is known before the first changed statement of a block."""
    known = set(known)
    for index, each in enumerate(body):
        if _has_line(each, lines):
            parts = (getattr(each, name, []) for name in ("body", "orelse", "finalbody"))
            inside = [part for part in parts if any(_has_line(one, lines) for one in part)]
            if len(inside) != 1 or any(_has_line(one, lines) for one in body[index + 1 :]):
                return known
            is_held = isinstance(each, ast.If) and inside[0] is each.body
            return _safe_in(inside[0], lines, known | set(_held(each.test) if is_held else ()))  # type: ignore[attr-defined]
        match each:
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue()], orelse=[]):
                known |= set(_missed(test))
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() | ast.Return():
                known |= set(_used(each))
    return known


def _has_line(node: ast.stmt, lines: Collection[int]) -> bool:
    return any(isinstance(each, ast.stmt) and each.lineno in lines for each in ast.walk(node))


def _held(test: ast.expr) -> Iterator[str]:
    """Yield the attributes of self that are there where a test holds."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for each in values:
                yield from _held(each)
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            yield from _name_of(left)
        case ast.Attribute():
            yield from _name_of(test)


def _missed(test: ast.expr) -> Iterator[str]:
    """Yield the attributes of self for which a test certainly holds if they are None."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            for each in values:
                yield from _missed(each)
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            yield from _name_of(left)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _name_of(operand)


def _name_of(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and _is_self(node.value):
        yield node.attr


def _used(statement: ast.stmt) -> Iterator[str]:
    """Yield the attributes of self that a statement computes with, so that it raises for None."""
    lazy = {
        id(below)
        for each in ast.walk(statement)
        if isinstance(each, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp)
        for below in ast.walk(each)
    }
    for each in ast.walk(statement):
        if id(each) in lazy:
            continue
        match each:
            case ast.BinOp(left=left, right=right):
                yield from _name_of(left)
                yield from _name_of(right)
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Call(func=value):
                yield from _name_of(value)


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
        self._below_changed = below - changed

    def _above(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            cls = self._every.get(waiting.pop())
            for base in cls.bases if cls is not None else ():
                name = _last(base)
                if name in self._every and name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def _below(self, names: set[str]) -> set[str]:
        return {name for name in self._every if self._above([name]) & names} - names

    def constructing(self, name: str) -> frozenset[str]:
        """Return the methods of a class that its constructor certainly calls, with the constructor."""
        cls = self._every.get(name)
        if cls is None:
            return frozenset()
        methods = {each.name: each for each in cls.body if isinstance(each, FUNCTIONS)}
        found, waiting = {"__init__", "__post_init__"}, ["__init__"]
        while waiting:
            method = methods.get(waiting.pop())
            for statement, is_certain in _statements(method.body if method is not None else [], is_certain=True):
                for each in ast.walk(statement) if is_certain and not _has_body(statement) else ():
                    match each:
                        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called)):
                            if called in methods and called not in found:
                                found.add(called)
                                waiting.append(called)
        return frozenset(found)

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


def _spans(node: ast.stmt, lines: Collection[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def _last(node: ast.expr) -> str:
    """Return the class that `Base`, `nets.Base` or `Base[int]` names."""
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# What writes


def _has_body(node: ast.stmt) -> bool:
    return hasattr(node, "body") or hasattr(node, "cases")


def _statements(body: Iterable[ast.stmt], *, is_certain: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements of a block, those inside of others too, without functions and classes."""
    for each in body:
        yield each, is_certain
        if isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            continue
        keeps = is_certain and isinstance(each, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor)
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(each, name, ()), is_certain=keeps)
        for part in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
            yield from _statements(part.body, is_certain=False)


def _places(
    body: Iterable[ast.stmt], owner: str = "", function: str = "", *, is_certain: bool = True
) -> Iterator[_Place]:
    for statement, certain in _statements(body, is_certain=is_certain):
        if isinstance(statement, ast.ClassDef):
            yield from _places(statement.body, statement.name)
        elif isinstance(statement, FUNCTIONS):
            yield from _places(statement.body, owner, function or statement.name, is_certain=not function)
        else:
            for write in _written(statement):
                yield _Place(statement, write, owner, function, certain)


def _written(statement: ast.stmt) -> Iterator[_Write]:
    """Yield the attributes that one statement writes, without the statements inside of it."""
    value = getattr(statement, "value", None)
    match statement:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            is_choice = isinstance(value, ast.IfExp | ast.BoolOp) and any(map(_is_none, _choices(value)))
            is_none = isinstance(statement, ast.Delete) or _is_none(value) or is_choice
            for target in targets:
                yield from _to(target, removes=is_none, is_choice=is_choice)
        case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _to(target)
        case ast.AnnAssign(target=target, value=ast.expr()):
            yield from _to(target, removes=_is_none(value))
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield from _to(item.optional_vars) if item.optional_vars is not None else ()
    for child in ast.iter_child_nodes(statement):
        for each in ast.walk(child) if isinstance(child, ast.expr | ast.withitem) else ():
            # `x.add(1)` is new where its value is used, and changes a set where it is not.
            if isinstance(each, ast.Call) and (_last(each.func) != "add" or isinstance(statement, ast.Expr)):
                yield from _called(each)


def _to(target: ast.expr, *, removes: bool = False, is_choice: bool = False) -> Iterator[_Write]:
    """Yield what an assignment to a target writes."""
    match target:
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for each in elts:
                yield from _to(each)
        case ast.Starred(value=value):
            yield from _to(value)
        case ast.Attribute(value=ast.Attribute() as held, attr="data"):
            yield from _to(held)
        case ast.Attribute(value=value, attr=name):
            yield _Write(name, _is_self(value), removes=removes, is_choice=is_choice)
        case ast.Subscript(value=value, slice=key):
            store = _store(value)
            if store is not None:
                yield _Write(_text(key), _is_self(store), removes=removes)
            else:
                yield from _inside(value)


def _store(node: ast.expr) -> ast.expr | None:
    """Return the object whose attributes a mapping holds: of `self._buffers`, and of `vars(self)`."""
    match node:
        case ast.Attribute(value=value, attr=name) if name in _STORES:
            return value
        case ast.Call(func=ast.Name(id="vars"), args=[value]):
            return value
    return None


def _inside(node: ast.expr) -> Iterator[_Write]:
    """Yield the attribute whose value is written in place; what is only written through `.data` no backward sees."""
    while True:
        match node:
            case ast.Subscript(value=value):
                node = value
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if writes(method):
                node = value
            case _:
                break
    if isinstance(node, ast.Attribute) and node.attr != "data":
        yield _Write(node.attr, _is_self(node.value), keeps=True)


def _called(call: ast.Call) -> Iterator[_Write]:
    for keyword in call.keywords:
        if keyword.arg == "out":
            yield from _inside(keyword.value)
    name = _last(call.func)
    first = call.args[0] if call.args else None
    second = call.args[1] if len(call.args) > 1 else None
    is_method = isinstance(call.func, ast.Attribute)
    if name in _REGISTERING and isinstance(call.func, ast.Attribute):
        holder, key = call.func.value, first or _keyword(call, "name")
        if (
            name in ("__setattr__", "__delattr__")
            and first is not None
            and len(call.args) > (name == "__setattr__") + 1
        ):
            holder, key = first, second  # object.__setattr__(self, "n", value)
        is_own = _is_self(holder) or (isinstance(holder, ast.Call) and _last(holder.func) == "super")
        value = call.args[-1] if len(call.args) > 1 else _keyword(call, "tensor")
        is_none = name == "__delattr__" or _is_none(value)
        text = _text(key)
        yield _Write(text.rpartition(".")[2] if text is not None else None, is_own, removes=is_none)
    elif name in _RENEWING and first is not None:
        key = second or _keyword(call, "name") or _keyword(call, "tensor_name")
        if key is not None or name in ("setattr", "delattr"):
            value = call.args[2] if len(call.args) > 2 else None
            is_none = name == "delattr" or _is_none(value)
            yield _Write(_text(key), _is_self(first), removes=is_none)
        else:
            yield _Write("weight", is_own=False)
    elif is_method and writes(name):
        held = call.func.value  # type: ignore[attr-defined]
        store = _store(held)
        if store is not None:
            yield _Write(_text(first), _is_self(store), removes=name in ("pop", "clear", "popitem"))
        elif name in _RESHAPING:
            yield from _to(held)
        else:
            yield from _inside(held)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
