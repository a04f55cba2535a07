"""Which attributes the statements of a file write, and where: what can be read without running it."""

import ast
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ADDING = frozenset(("append", "extend", "insert", "update", "setdefault", "add"))
"""Methods that put something into a container."""
_KEEPING = ADDING | {"pop", "popitem", "clear", "remove"}
"""Methods that change a container; of tensors, each method whose name ends with `_` writes."""
STORES = frozenset(("__dict__", "_buffers", "_parameters", "_modules"))
"""Where an object keeps its attributes by name."""
_REGISTERING = frozenset(
    ("register_buffer", "register_parameter", "register_module", "add_module", "set_submodule", "__setattr__")
) | {"__delattr__"}
"""Methods that set an attribute whose name is an argument."""
_RENEWING = frozenset(
    ("setattr", "delattr", "register_parametrization", "remove_parametrizations", "weight_norm", "spectral_norm")
) | {"remove_weight_norm", "remove_spectral_norm"}
"""Functions that set an attribute of their first argument; the second is its name."""
_RESHAPING = frozenset(("resize_", "set_", "resize_as_"))
TENSOR_ATTRIBUTES = frozenset(
    ("shape", "dtype", "device", "ndim", "data", "grad", "T", "mT", "H", "real", "imag", "layout")
)
"""Attributes of a tensor, which no class of the file writes."""


def writes(method: str) -> bool:
    """Whether a method of this name changes what it is called on."""
    # A trailing underscore is torch's sign of an in-place method; two are Python's own, e.g. `__len__`.
    return (method.endswith("_") and not method.endswith("__")) or method in _KEEPING


class AttributeWrite(Struct, frozen=True):
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


class WritePlace(Struct, frozen=True):
    """A statement that writes, and where it stands."""

    statement: ast.stmt
    write: AttributeWrite
    owner: str = ""
    """The class; empty: none."""
    function: str = ""
    """The outermost function; empty: none."""
    is_certain: bool = True
    """Whether the statement runs whenever its function does."""


def has_body(node: ast.stmt) -> bool:
    """Whether other statements stand inside of one."""
    return hasattr(node, "body") or hasattr(node, "cases")


def statements(body: Iterable[ast.stmt], *, is_certain: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements of a block, those inside of others too, without functions and classes."""
    for each in body:
        yield each, is_certain
        if isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            continue
        # `with` runs its block, and a loop is taken to have a round; an `if` or a `try` need not run theirs.
        keeps = is_certain and isinstance(each, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor)
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(each, name, ()), is_certain=keeps)
        for part in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
            yield from statements(part.body, is_certain=False)


def places(
    body: Iterable[ast.stmt],
    owner: str = "",
    function: str = "",
    *,
    is_certain: bool = True,
    optional: frozenset[str] = frozenset(),
) -> Iterator[WritePlace]:
    """Yield all writes of some statements, those in functions and classes too.

    Args:
        body: the statements.
        owner: the class that they stand in.
        function: the outermost function that they stand in.
        is_certain: whether they run whenever that function does.
        optional: the parameters that may be None.
    """
    for statement, certain in statements(body, is_certain=is_certain):
        if isinstance(statement, ast.ClassDef):
            yield from places(statement.body, statement.name)
        elif isinstance(statement, FUNCTIONS):
            inner = function or statement.name
            yield from places(
                statement.body, owner, inner, is_certain=not function, optional=optional | _optional(statement)
            )
        else:
            for write in _written(statement, optional):
                yield WritePlace(statement, write, owner, function, certain)


def _optional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the parameters of a function that are None where a caller gives nothing."""
    return frozenset(name for name, default in defaults_of(function).items() if is_none(default))


def defaults_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr | None]:
    """Return what the parameters of a function are where a caller gives nothing, by name."""
    given = function.args
    # Defaults belong to the last parameters.
    positional = [*given.posonlyargs, *given.args]
    late = positional[len(positional) - len(given.defaults) :]
    pairs = (*zip(late, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True))
    return {one.arg: default for one, default in pairs}


def family(classes: Iterable[ast.ClassDef], names: Iterable[str]) -> set[str]:
    """Return some classes of a file with those that they derive from, and those that derive from them."""
    bases = {each.name: {last_name(base) for base in each.bases} for each in classes}
    found = set(names)
    # In both directions until nothing is new, since an object of any of these classes may be `self`.
    while True:
        more = {
            name for name, above in bases.items() if above & found or any(name in bases.get(one, ()) for one in found)
        }
        if more <= found:
            return found
        found |= more


def _written(statement: ast.stmt, optional: Collection[str] = ()) -> Iterator[AttributeWrite]:
    """Yield the attributes that one statement writes, without the statements inside of it."""
    value = getattr(statement, "value", None)
    match statement:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            is_choice = isinstance(value, ast.IfExp | ast.BoolOp) and any(map(is_none, choices(value)))
            is_choice = is_choice or (isinstance(value, ast.Name) and value.id in optional)
            removes = isinstance(statement, ast.Delete) or is_none(value) or is_choice
            for target in targets:
                yield from _to(target, removes=removes, is_choice=is_choice)
        case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _to(target)
        case ast.AnnAssign(target=target, value=ast.expr()):
            yield from _to(target, removes=is_none(value))
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for name in (item.optional_vars for item in items if item.optional_vars is not None):
                yield from _to(name)
    yield from _written_by_calls(statement)


def _written_by_calls(statement: ast.stmt) -> Iterator[AttributeWrite]:
    """Yield the attributes that the calls in a statement write, without the statements inside of it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.expr | ast.withitem):
            continue
        for each in ast.walk(child):
            # `x.add(1)` is new where its value is used, and changes a set where it is not.
            if isinstance(each, ast.Call) and (last_name(each.func) != "add" or isinstance(statement, ast.Expr)):
                yield from _called(each)


def _to(target: ast.expr, *, removes: bool = False, is_choice: bool = False) -> Iterator[AttributeWrite]:
    """Yield what an assignment to a target writes."""
    match target:
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for each in elts:
                yield from _to(each)
        case ast.Starred(value=value):
            yield from _to(value)
        # `self.weight.data = t` replaces what `self.weight` holds.
        case ast.Attribute(value=ast.Attribute() as held, attr="data"):
            yield from _to(held)
        case ast.Attribute(value=value, attr=name):
            # Whoever replaces `__dict__` or the class may write any attribute.
            is_every = name in STORES or name == "__class__"
            yield AttributeWrite(None if is_every else name, is_self(value), removes=removes, is_choice=is_choice)
        case ast.Subscript(value=value, slice=key):
            store = _store(value)
            if store is not None:
                yield AttributeWrite(_text(key), is_self(store), removes=removes)
            else:
                yield from _inside(value)


def _store(node: ast.expr) -> ast.expr | None:
    """Return the object whose attributes a mapping holds: of `self._buffers`, and of `vars(self)`."""
    match node:
        case ast.Attribute(value=value, attr=name) if name in STORES:
            return value
        case ast.Call(func=ast.Name(id="vars"), args=[value]):
            return value
    return None


def _inside(node: ast.expr) -> Iterator[AttributeWrite]:
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
        yield AttributeWrite(node.attr, is_self(node.value), keeps=True)


def _called(call: ast.Call) -> Iterator[AttributeWrite]:
    for keyword in call.keywords:
        if keyword.arg == "out":
            yield from _inside(keyword.value)
    name = last_name(call.func)
    first, second, third = (*call.args, None, None, None)[:3]
    is_method = isinstance(call.func, ast.Attribute)
    if name in _REGISTERING and isinstance(call.func, ast.Attribute):
        holder, key = call.func.value, first or keyword_of(call, "name")
        if (
            name in ("__setattr__", "__delattr__")
            and first is not None
            and len(call.args) > (name == "__setattr__") + 1
        ):
            holder, key = first, second  # object.__setattr__(self, "n", value)
        is_own = is_self(holder) or (isinstance(holder, ast.Call) and last_name(holder.func) == "super")
        value = call.args[-1] if len(call.args) > 1 else keyword_of(call, "tensor")
        removes = name == "__delattr__" or is_none(value)
        text = _text(key)
        yield AttributeWrite(text.rpartition(".")[2] if text is not None else None, is_own, removes=removes)
    elif name in _RENEWING and first is not None:
        key = second or keyword_of(call, "name") or keyword_of(call, "tensor_name")
        if key is not None or name in ("setattr", "delattr"):
            removes = name == "delattr" or is_none(third)
            yield AttributeWrite(_text(key), is_self(first), removes=removes)
        else:
            # `weight_norm(layer)` renews `weight` unless its name is given.
            yield AttributeWrite("weight", is_own=False)
    elif is_method and writes(name):
        held = call.func.value  # type: ignore[attr-defined]
        store = _store(held)
        if store is not None:
            yield AttributeWrite(_text(first), is_self(store), removes=name in ("pop", "clear", "popitem"))
        elif name in _RESHAPING:
            yield from _to(held)
        else:
            yield from _inside(held)


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return what a call passes by a keyword; None: it does not."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def _text(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def choices(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the attributes and constants that an expression may be, as in `self.n if wide else None`."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from choices(body)
            yield from choices(orelse)
        case ast.BoolOp(values=values):
            for each in values:
                yield from choices(each)
        case ast.Attribute() | ast.Subscript() | ast.Constant() | ast.Call(func=ast.Name(id="getattr")):
            yield value


def is_none(node: object) -> bool:
    """Whether an expression is `None`."""
    return isinstance(node, ast.Constant) and node.value is None


def is_self(node: ast.expr) -> bool:
    """Whether an expression is `self`."""
    return isinstance(node, ast.Name) and node.id == "self"


def last_name(node: ast.expr) -> str:
    """Return the class that `Base`, `nets.Base` or `Base[int]` names."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return getattr(node, "id", "")
