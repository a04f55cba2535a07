"""Infer the shape of a JSON report from the functions that write it.

A writer is an ordinary function that returns dictionaries and lists: `{"line": each.line, "ops": list(each.ops)}`. The
types of the values come from its annotations and from the fields of the records that it reads. `Writers` follows the
writer's syntax tree and combines these types. It over-approximates: for an `if` it takes both branches, for `x and y`
it takes `y` and the false values of `x`. So an inferred shape may be wider than the real output, never narrower.

What `reports/json/printer.py` prints needs no inference: `Writers.printed` reads the fields of the Struct.

This covers the Python that writers use today. It raises `UnknownSyntaxError` for anything else, with the file and line.
"""

import ast
import builtins
import enum
import importlib
import inspect
import re
import sys
import textwrap
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ctrace.reports.json.printer import ALL, FORMATS, SCHEMA, JsonField, json_fields


class UnknownSyntaxError(Exception):
    """A writer uses Python that `Writers` cannot follow."""


@dataclass(frozen=True)
class Value:
    """A Python value of an annotated type."""

    type: Any


@dataclass(frozen=True)
class Constant:
    """A single known value, such as a name, a schema's version, None or a member of an enum."""

    value: Any


@dataclass(frozen=True)
class Property:
    """A property of an object."""

    shape: "Shape"
    required: bool = True
    doc: str = ""


@dataclass(frozen=True)
class Object:
    """A JSON object with known properties, or with any names (limited to `names`) and values of shape `rest`."""

    properties: Mapping[str, Property] = field(default_factory=dict)
    rest: "Shape | None" = None
    names: "Shape | None" = None


@dataclass(frozen=True)
class Array:
    """A JSON array of any length."""

    item: "Shape"


@dataclass(frozen=True)
class Row:
    """A tuple or list with a known shape for each element."""

    items: tuple["Shape", ...]


@dataclass(frozen=True)
class Either:
    """One of several shapes."""

    options: tuple["Shape", ...]


@dataclass(frozen=True)
class Reference:
    """A reference to a writer's result, which is defined once under `$defs`."""

    name: str


Shape = Value | Constant | Object | Array | Row | Either | Reference
Scope = dict[str, Shape]

NULL = Constant(None)
ANYTHING = Value(Any)
_BOOLEAN, _INTEGER, _STRING = Value(bool), Value(int), Value(str)
_WRITTEN = ("ctrace.reports", "ctrace.cli")
_STRING_RESULTS = {"rpartition": tuple[str, str, str], "partition": tuple[str, str, str], "split": list[str]}


def either(options: Iterable[Shape]) -> Shape:
    """Return the union of some shapes, flat and without duplicates; merge objects into one with optional properties."""
    flat: list[Shape] = []
    for option in options:
        for each in option.options if isinstance(option, Either) else (option,):
            if each not in flat:
                flat.append(each)
    objects = [each for each in flat if isinstance(each, Object)]
    if len(objects) > 1:
        flat = [*(each for each in flat if not isinstance(each, Object)), _joined(objects)]
    return flat[0] if len(flat) == 1 else Either(tuple(flat))


def _joined(objects: list[Object]) -> Object:
    """Return an object shape that covers all of some objects."""
    names = dict.fromkeys(name for each in objects for name in each.properties)
    properties = {}
    for name in names:
        found = [each.properties[name] for each in objects if name in each.properties]
        required = len(found) == len(objects) and all(each.required for each in found)
        properties[name] = Property(either(each.shape for each in found), required, found[0].doc)
    rests = [each.rest for each in objects if each.rest is not None]
    keys = [each.names for each in objects if each.rest is not None]
    known = either(each for each in keys if each is not None) if keys and None not in keys else None
    return Object(properties, either(rests) if rests else None, known)


def options(shape: Shape) -> tuple[Shape, ...]:
    """Return the alternatives of a shape; split unions of Python types."""
    if isinstance(shape, Either):
        return tuple(one for each in shape.options for one in options(each))
    if isinstance(shape, Value):
        hint = _plain_hint(shape.type)
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            return tuple(one for each in typing.get_args(hint) for one in options(Value(each)))
        if typing.get_origin(hint) is typing.Literal and len(typing.get_args(hint)) == 1:
            return (Constant(typing.get_args(hint)[0]),)
        return (NULL,) if hint in (None, types.NoneType) else (Value(hint),)
    return (shape,)


def _plain_hint(hint: Any) -> Any:
    """Resolve a NewType, an alias or an annotated type."""
    while True:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        else:
            return hint


def _falsy(shape: Shape) -> list[Shape]:
    """Return the alternatives of a shape that can be false, as the left side of `and`."""
    found: list[Shape] = []
    for each in options(shape):
        true = isinstance(each, Object | Reference) or (isinstance(each, Value) and _is_always_true(each.type))
        if not true and not (isinstance(each, Constant) and each.value):
            found.append(each)
    return found


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def _is_always_true(hint: Any) -> bool:
    """Whether a type has no false value: a tuple of fixed length, or a class without `__bool__` and `__len__`."""
    if typing.get_origin(hint) is tuple:
        return Ellipsis not in typing.get_args(hint)
    return _is_record(hint) and "__bool__" not in vars(hint) and "__len__" not in vars(hint)


@cache
def _namespace(module: types.ModuleType) -> dict[str, Any]:
    """Return the globals of a module, including its imports under TYPE_CHECKING."""
    found = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            exec(compile(ast.Module(node.body, []), module.__file__ or "", "exec"), found)
    return found


@cache
def _hints(owner: Any) -> dict[str, Any]:
    module = sys.modules[owner.__module__]
    return typing.get_type_hints(owner, _namespace(module), include_extras=False)


@cache
def _documented(owner: type) -> dict[str, str]:
    """Return the docstrings of a class's fields: the strings after them in its source."""
    found: dict[str, str] = {}
    for base in reversed(owner.__mro__[:-1]):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):
            continue
        assert isinstance(tree, ast.ClassDef)
        for before, after in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(before, ast.AnnAssign)
            ):
                found[ast.unparse(before.target)] = inspect.cleandoc(str(after.value.value)).replace("\n", " ")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (doc := ast.get_docstring(node)):
                found[node.name] = doc.partition("\n\n")[0].replace("\n", " ")
    return found


def attribute(shape: Shape, name: str) -> Shape:
    """Return the shape of an attribute; skip None, which has no attributes."""
    found: list[Shape] = []
    for each in options(shape):
        if each == NULL:
            continue
        if isinstance(each, Constant) and isinstance(each.value, enum.EnumMeta):
            found.append(Constant(each.value[name]))
        elif isinstance(each, Constant):
            found.append(Value(type(getattr(each.value, name))))
        elif not isinstance(each, Value):
            raise UnknownSyntaxError(f"attribute {name} of {each}")
        elif each.type is Any:
            found.append(ANYTHING)
        else:
            found.append(Value(_attribute_hint(each.type, name)))
    return either(found)


def _attribute_hint(owner: Any, name: str) -> Any:
    owner = typing.get_origin(owner) or owner
    hints = _hints(owner)
    if name in hints:
        return typing.get_args(hints[name])[0] if typing.get_origin(hints[name]) is typing.ClassVar else hints[name]
    member = inspect.getattr_static(owner, name)
    function = member.fget if isinstance(member, property) else getattr(member, "func", None)
    if function is None:
        raise UnknownSyntaxError(f"attribute {name} of {owner.__name__}")
    return _hints(function)["return"]


def items(shape: Shape) -> Shape:
    """Return the shape of the elements when iterating over a shape."""
    found: list[Shape] = []
    for each in options(shape):
        match each:
            case Array(item):
                found.append(item)
            case Row(parts):
                found.extend(parts)
            case Object(properties, rest, names):
                found.extend(Constant(name) for name in properties)
                found.extend([names or _STRING] if rest is not None else [])
            case Constant(value) if isinstance(value, enum.EnumMeta):
                found.append(Value(value))
            case Constant(value) if isinstance(value, tuple | list | frozenset):
                found.extend(map(Constant, value))
            case Constant(None):
                pass
            case Value(hint):
                found.append(Value(_item_hint(hint)))
            case _:
                raise UnknownSyntaxError(f"iteration over {each}")
    return either(found)


def _item_hint(hint: Any) -> Any:
    if hint is str:
        return str
    arguments = [each for each in typing.get_args(hint) if each is not Ellipsis]
    if not arguments:
        return Any
    if typing.get_origin(hint) is tuple and len(arguments) > 1:
        return typing.Union[tuple(arguments)]  # noqa: UP007 - the arguments are not known here
    return arguments[0]


def _is_mapping(hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, abc.Mapping)


def parts(shape: Shape, number: int) -> list[Shape]:
    """Return the shapes that unpacking a shape into some names binds."""
    split: list[list[Shape]] = [[] for _ in range(number)]
    for each in options(shape):
        if isinstance(each, Row):
            found: list[Shape] = list(each.items)
        elif isinstance(each, Constant) and isinstance(each.value, tuple):
            found = [Constant(one) for one in each.value]
        elif isinstance(each, Value) and typing.get_origin(each.type) is tuple and Ellipsis not in each.type.__args__:
            found = [Value(one) for one in each.type.__args__]
        elif each == NULL:
            continue
        else:
            found = [items(each)] * number
        for into, one in zip(split, found, strict=True):
            into.append(one)
    return [either(each) for each in split]


def value_of(shape: Shape, key: Shape) -> Shape:
    """Return the shape of `shape[key]`."""
    found = []
    for each in options(shape):
        if isinstance(each, Object) and isinstance(key, Constant) and key.value in each.properties:
            found.append(each.properties[key.value].shape)
        elif isinstance(each, Object) and each.rest is not None:
            found.append(each.rest)
        elif isinstance(each, Constant) and isinstance(each.value, Mapping):
            found.append(_constants(each.value.values()))
        elif isinstance(each, Value) and _is_mapping(each.type):
            found.append(Value((*typing.get_args(each.type), Any, Any)[1]))
        elif isinstance(key, Constant) and isinstance(each, Row):
            found.append(each.items[key.value])
        elif isinstance(key, Constant) and isinstance(key.value, int) and isinstance(each, Value):
            arguments = typing.get_args(each.type)
            fixed = typing.get_origin(each.type) is tuple and Ellipsis not in arguments
            found.append(Value(arguments[key.value]) if fixed else items(each))
        elif each != NULL:
            found.append(items(each))
    return either(found)


_BASIS = "What the figures of this object rest on, except those that `bases` names."


def _constant(value: Any) -> Shape:
    if isinstance(value, dict):
        return Object({name: Property(_constant(each)) for name, each in value.items()})
    return Constant(value)


def _constants(values: Iterable[Any]) -> Shape:
    found = list(values)
    simple = all(isinstance(each, str | int | None) for each in found)
    return either(map(Constant, found)) if simple else either(Value(type(each)) for each in found)


@dataclass
class Writers:
    """Follows writers, and collects the results of shared writers as `definitions`."""

    definitions: dict[str, Shape] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    """The names of definitions by type: of a Struct, `Struct | None` or `tuple[Struct, ...]`; or by `Class.attribute`.
    Others are written where they stand.
    """
    undescribed: frozenset[str] = frozenset()
    """The classes whose definition has no description, and the `Class.name` of names that have none."""
    published: Mapping[str, Any] = field(default_factory=dict)
    """The types of names, by `Class.name`, where the published one is not that of the field."""
    _names: dict[Callable[..., Any], str] = field(default_factory=dict)

    def returned(self, function: Callable[..., Any], **bound: Shape) -> Shape:
        """Return the shape of a function's result; parameters that are not bound have their annotated types."""
        hints = _hints(function)
        scope = {name: Value(hints.get(name, Any)) for name in inspect.signature(function).parameters} | bound
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        walk = _Walk(self, function, scope)
        walk.block(tree.body)
        return either(walk.returned)

    def reference(self, function: Callable[..., Any]) -> Shape:
        """Return a reference to a writer's result for arguments of its annotated types."""
        if function not in self._names:
            name = function.__name__.strip("_").removesuffix("_data")
            name = "report" if name == "as" else name
            if name in self.definitions:
                name = f"{function.__module__.rpartition('.')[2].removesuffix('_json')}_{name}"
            self._names[function] = name
            self.definitions[name] = NULL
            self.definitions[name] = self.returned(function)
            self.docs[name] = _subject(function)
        return Reference(self._names[function])

    def printed(self, hint: Any) -> Shape:
        """Return the shape of what the printer makes of a value of a type."""
        hint = _plain_hint(hint)
        name = self.named.get(_hint_text(hint))
        if name is None:
            return self._unnamed(hint)
        assert name not in self._names.values(), f"{name} is what a writer makes: choose another name for {hint}"
        if name not in self.definitions:
            self.definitions[name] = NULL
            self.definitions[name] = self._unnamed(hint)
            about = hint.__doc__ if _is_record(hint) and hint.__name__ not in self.undescribed else ""
            self.docs[name] = inspect.cleandoc(about or "").partition("\n\n")[0].replace("\n", " ")
        return Reference(name)

    def _unnamed(self, hint: Any) -> Shape:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            return either(map(self.printed, arguments))
        if _is_record(hint):
            return self.object_of(hint)
        if hint is Path:
            return _STRING
        if origin is tuple and Ellipsis not in arguments:
            return Row(tuple(map(self.printed, arguments)))
        if _is_mapping(hint):
            key, value = (*arguments, Any, Any)[:2]
            return Object({}, self.printed(value), None if key in (str, int, Any) else Value(key))
        if origin in (tuple, list, abc.Sequence):
            return Array(self.printed(arguments[0]))
        return either(options(Value(hint)))

    def object_of(self, kind: type) -> Object:
        """Return the object of a Struct, whether or not it has a name in `named`."""
        found: dict[str, Property] = {}
        rest: Shape | None = None
        for each in json_fields(kind):
            if each.name == ALL:
                shapes = options(self._property(kind, each).shape)
                (below,) = (self.resolved(one) for one in shapes if one != NULL)
                assert isinstance(below, Object)
                is_there = NULL not in shapes
                spread = below.properties.items()
                added = {name: replace(one, required=one.required and is_there) for name, one in spread}
                found, rest = {**found, **added, **found}, below.rest
            elif each.name == "schema":
                found[each.name] = Property(Constant(SCHEMA))
            else:
                found[each.name] = self._property(kind, each)
            if f"{kind.__name__}.{each.name}" in self.undescribed:
                found[each.name] = replace(found[each.name], doc="")
        return Object(found, rest)

    def _property(self, kind: type, declared: JsonField) -> Property:
        *way, last = declared.path
        if typing.get_origin(_hints(kind).get(last)) is typing.ClassVar:
            return Property(_constant(getattr(kind, last)), doc=_BASIS if last == "BASIS" else "")
        owners: list[Any] = [kind]
        absent = False
        for name in way:
            found = [each for owner in owners for each in options(Value(_attribute_hint(owner, name)))]
            absent = absent or NULL in found
            owners = [each.type for each in found if isinstance(each, Value)]
        hints = [_attribute_hint(owner, last) for owner in owners]
        shape = either(([NULL] if absent else []) + [self._formatted(each, declared.form) for each in hints])
        if published := self.published.get(f"{kind.__name__}.{declared.name}"):
            shape = self.printed(published)
        if defined := self.named.get(f"{owners[0].__name__}.{last}"):
            self.definitions[defined], self.docs[defined], shape = shape, "", Reference(defined)
        is_described = all(_keeps_items(each, declared.form) for each in hints)
        doc = _documented(owners[0]).get(last, "") if is_described else ""
        return Property(shape, not declared.condition, doc)

    def _formatted(self, hint: Any, form: str) -> Shape:
        """Return the shape of a value in a format: of its own type, unless the format always makes another."""
        if form == "null_if_empty":
            return either([*(each for each in options(self.printed(hint)) if each != NULL), NULL])
        made = _hints(FORMATS[form])["return"] if form else hint
        return self.printed(hint if made is object else made)

    def resolved(self, shape: Shape) -> Shape:
        """Return the shape behind a reference."""
        return self.resolved(self.definitions[shape.name]) if isinstance(shape, Reference) else shape


def _hint_text(hint: Any) -> str:
    """Write a type as code does: `tuple[FxNode, ...]`."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else re.sub(r"(\w+\.)+", "", str(hint))


def _keeps_items(hint: Any, form: str) -> bool:
    """Whether a description of an attribute holds for what a format makes: not for a list of something else."""
    made = _hints(FORMATS[form])["return"] if form else hint
    return typing.get_origin(made) is not list or typing.get_args(made)[0] in typing.get_args(hint)


def _subject(function: Callable[..., Any]) -> str:
    """Describe a writer's output: the docstring of its first parameter's record type."""
    first = next(iter(_hints(function).values()), None)
    if first is None or not _is_record(first) or first.__name__ == "Session":
        return ""
    return inspect.cleandoc(first.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _is_writer(function: Any) -> bool:
    """Whether a function returns report data, which is annotated only as `dict[str, Any]` or a `SafeText`."""
    if not inspect.isfunction(function) or not function.__module__.startswith(_WRITTEN):
        return False
    hint = _hints(function).get("return")
    return getattr(hint, "__name__", "") == "SafeText" or "dict[str, " in str(hint)


class _Walk:
    """Follows the statements of one function."""

    def __init__(self, writers: Writers, function: Callable[..., Any], scope: Scope) -> None:
        self.writers = writers
        self.scope = scope
        self.returned: list[Shape] = []
        self._function = function
        self._globals = _namespace(sys.modules[function.__module__])

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for each in statements:
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Return(value):
                self.returned.append(NULL if value is None else self.shape(value))
            case ast.Assign([target], value):
                self._bind(target, self.shape(value))
            case ast.If(_, body, orelse):
                self.block([*body, *orelse])
            case ast.For(target, over, body):
                for each in self._unrolled(over):
                    self._bind(target, each)
                    self.block(body)
            case ast.Match(subject, cases):
                for case in cases:
                    self._pattern(case.pattern)
                    self.block(case.body)
                del subject
            case ast.Expr() | ast.ImportFrom() | ast.Pass():
                pass
            case _:
                self._refuse(node)

    def _refuse(self, node: ast.AST) -> typing.NoReturn:
        where = f"{self._function.__module__}.{self._function.__name__}"
        raise UnknownSyntaxError(f"{where}: {ast.unparse(node)[:200]}; teach tools/shapes.py, or write it more plainly")

    def _bind(self, target: ast.expr, shape: Shape) -> None:
        match target:
            case ast.Name(name):
                self.scope[name] = shape
            case ast.Tuple(elements):
                for element, part in zip(elements, parts(shape, len(elements)), strict=True):
                    self._bind(element, part)
            case ast.Subscript(ast.Name(name), key):
                known, place = self.scope[name], self.shape(key)
                if not (isinstance(known, Object) and isinstance(place, Constant)):
                    self._refuse(target)
                old = known.properties[place.value]
                self.scope[name] = replace(
                    known, properties={**known.properties, place.value: replace(old, shape=shape)}
                )
            case _:
                self._refuse(target)

    def _pattern(self, pattern: ast.pattern) -> None:
        """Bind the names of `case Class(name, field=name)`."""
        if not isinstance(pattern, ast.MatchClass):
            self._refuse(pattern)
        owner = self._known(pattern.cls)
        by_place = zip(owner.__match_args__, pattern.patterns, strict=False)
        by_name = zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
        for name, below in (*by_place, *by_name):
            if isinstance(below, ast.MatchAs) and below.name:
                self.scope[below.name] = attribute(Value(owner), name)

    def _known(self, node: ast.expr) -> Any:
        """Return the Python object behind a global name or a module's attribute, or None."""
        match node:
            case ast.Name(name) if name not in self.scope:
                return self._globals.get(name, getattr(builtins, name, None))
            case ast.Attribute(owner, name) if (module := self._known(owner)) is not None:
                return getattr(module, name, None)
        return None

    def shape(self, node: ast.expr) -> Shape:
        """Return the shape of an expression."""
        match node:
            case ast.Constant(value):
                return Constant(value)
            case ast.JoinedStr():
                return _STRING
            case ast.Name(name):
                return self.scope[name] if name in self.scope else self._global(node)
            case ast.Attribute(owner, name):
                known = self._known(node)
                return self._global(node) if known is not None else attribute(self.shape(owner), name)
            case ast.Dict(keys, values):
                return self._object(keys, values)
            case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
                return self._row(elements)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._comprehension(node.elt, node.generators)
            case ast.DictComp(key, value, generators):
                return self._dict_comprehension(key, value, generators)
            case ast.IfExp(_, body, orelse):
                return either((self.shape(body), self.shape(orelse)))
            case ast.BoolOp(op, values):
                return self._boolean(op, list(map(self.shape, values)))
            case ast.Compare() | ast.UnaryOp(ast.Not()):
                return _BOOLEAN
            case ast.Subscript(value, key):
                return value_of(self.shape(value), self.shape(key))
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left, _, right):
                return either((self.shape(left), self.shape(right)))
        self._refuse(node)

    def _global(self, node: ast.expr) -> Shape:
        known = self._known(node)
        if known is None:
            self._refuse(node)
        return Constant(known)

    def _row(self, elements: list[ast.expr]) -> Shape:
        found: list[Shape] = []
        for each in elements:
            if not isinstance(each, ast.Starred):
                found.append(self.shape(each))
                continue
            inner = self.shape(each.value)
            match inner:
                case Row(more):
                    found.extend(more)
                case Constant(tuple(values)):
                    found.extend(map(Constant, values))
                case _:
                    return Array(either([*found, items(inner), *map(self.shape, elements[elements.index(each) + 1 :])]))
        return Row(tuple(found))

    def _unrolled(self, over: ast.expr) -> Iterator[Shape]:
        """Yield the shapes that a loop binds: one for each known element, or else one for all elements."""
        shape = self.writers.resolved(self.shape(over))
        match shape:
            case Row(found):
                yield from found
            case Constant(tuple(values)):
                yield from map(Constant, values)
            case _:
                yield items(shape)

    def _comprehension(self, element: ast.expr, generators: list[ast.comprehension]) -> Shape:
        before = dict(self.scope)
        fixed = len(generators) == 1 and not generators[0].ifs and isinstance(self.shape(generators[0].iter), Row)
        found = [self.shape(element) for _ in self._bound(generators)]
        self.scope = before
        return Row(tuple(found)) if fixed else Array(either(found))

    def _bound(self, generators: list[ast.comprehension]) -> Iterator[None]:
        if not generators:
            yield None
            return
        for each in self._unrolled(generators[0].iter):
            self._bind(generators[0].target, each)
            yield from self._bound(generators[1:])

    def _dict_comprehension(self, key: ast.expr, value: ast.expr, generators: list[ast.comprehension]) -> Shape:
        before = dict(self.scope)
        found: list[Object] = []
        known: dict[str, Property] = {}
        for _ in self._bound(generators):
            name, shape = self.shape(key), self.shape(value)
            if isinstance(name, Constant) and isinstance(name.value, str) and not generators[0].ifs:
                known[name.value] = Property(shape)
            else:
                found.append(Object({}, shape, None if options(name) == (_STRING,) else name))
        self.scope = before
        return _joined([*found, *([Object(known)] if known else [])])

    def _property(self, owner: type, name: str) -> Property:
        return Property(attribute(Value(owner), name), doc=_documented(owner).get(name, ""))

    def _boolean(self, op: ast.boolop, shapes: list[Shape]) -> Shape:
        *before, last = shapes
        if isinstance(op, ast.And):
            return either([one for each in before for one in _falsy(each)] + [last])
        return either([one for each in before for one in options(each) if one != NULL] + [last])

    def _object(self, keys: list[ast.expr | None], values: list[ast.expr]) -> Object:
        found: dict[str, Property] = {}
        rest: Shape | None = None
        for key, value in zip(keys, values, strict=True):
            if key is None:
                spread = self._spread(self.shape(value))
                for spread_name, each in spread.properties.items():
                    old = found.get(spread_name)
                    if not each.required and old is not None:
                        each = replace(each, shape=either((old.shape, each.shape)), required=old.required)
                    found[spread_name] = each
                rest = either((rest, spread.rest)) if rest and spread.rest else rest or spread.rest
                continue
            name = self.shape(key)
            if not (isinstance(name, Constant) and isinstance(name.value, str)):
                self._refuse(key)
            found[name.value] = Property(self.shape(value), doc=self._doc(value))
        return Object(found, rest)

    def _spread(self, shape: Shape) -> Object:
        """Return the properties that `**shape` adds."""
        found = []
        for each in map(self.writers.resolved, options(shape)):
            if isinstance(each, Object):
                found.append(each)
            elif isinstance(each, Value) and _is_mapping(each.type):
                found.append(Object({}, Value((*typing.get_args(each.type), Any, Any)[1])))
            elif each != NULL:
                raise UnknownSyntaxError(f"** of {each} in {self._function.__name__}")
        return _joined(found)

    def _doc(self, node: ast.expr) -> str:
        """Return the docstring of the field that a value comes from."""
        match node:
            case ast.BoolOp(_, [*_, ast.Constant(None)]):
                return self._doc(node.values[0])
            case ast.BoolOp(ast.And(), [*_, last]):
                return self._doc(last)
            case ast.Call(ast.Name("str" | "list" | "dict" | "bool" | "int"), [argument]):
                return self._doc(argument)
            case ast.Attribute(owner, name) if self._known(node) is None:
                for each in options(self.shape(owner)):
                    if isinstance(each, Value) and _is_record(each.type):
                        return _documented(each.type).get(name, "")
        return ""

    def _call(self, node: ast.Call) -> Shape:
        function = self._known(node.func)
        name = getattr(function, "__name__", "")
        if isinstance(node.func, ast.Name) and node.func.id in self.scope:
            return self.scope[node.func.id]
        if isinstance(node.func, ast.Attribute) and function is None:
            return self._method(node, self.shape(node.func.value), node.func.attr)
        if function is structs.asdict:
            return self._record(node)
        if name in ("json_text", "loads"):
            return self.shape(node.args[0])
        if name == "plain":
            shape = self.shape(node.args[0])
            if isinstance(shape, Value):
                return self.writers.printed(shape.type)
            return either(
                self.writers.printed(each.type) if isinstance(each, Value) else each for each in options(shape)
            )
        if getattr(builtins, name, None) is function or name == "fromkeys":
            return self._builtin(node, name)
        if _is_writer(function):
            return self._writer(function, node)
        if inspect.isfunction(function):
            return Value(_hints(function)["return"])
        if isinstance(function, type):
            return Value(function)
        self._refuse(node)

    def _record(self, node: ast.Call) -> Object:
        """Follow `asdict(record)`."""
        (shape,) = (each for each in options(self.shape(node.args[0])) if isinstance(each, Value))
        return Object({name: self._property(shape.type, name) for name in shape.type.__struct_fields__})

    def _writer(self, function: Callable[..., Any], node: ast.Call) -> Shape:
        """Follow another writer if it is passed data; otherwise refer to its definition."""
        hints = _hints(function)
        names = list(inspect.signature(function).parameters)
        data = {
            name: self.shape(argument)
            for name, argument in zip(names, node.args, strict=False)
            if "dict[str, " in str(hints[name])
        }
        return self.writers.returned(function, **data) if data else self.writers.reference(function)

    def _method(self, node: ast.Call, owner: Shape, name: str) -> Shape:
        found: list[Shape] = []
        for each in options(owner):
            match each:
                case Constant(None):
                    pass
                case Object(properties, rest) if name == "items":
                    known = [Row((Constant(key), one.shape)) for key, one in properties.items()]
                    found.append(Array(Row((each.names or _STRING, rest))) if rest is not None else Row(tuple(known)))
                case Value(hint) if _is_mapping(hint):
                    key, value = (*typing.get_args(hint), Any, Any)[:2]
                    # mypy reads variables in brackets as types
                    results = {"items": list[tuple[key, value]], "values": list[value], "get": value | None}  # type: ignore[valid-type]
                    found.append(Value(results[name]))
                case _ if name in ("index", "count"):
                    found.append(_INTEGER)
                case Value(hint) if hint is str:
                    found.append(Value(_STRING_RESULTS.get(name, str)))
                case Value(hint) if isinstance(hint, type) and inspect.isfunction(
                    inspect.getattr_static(hint, name, None)
                ):
                    found.append(Value(_hints(getattr(hint, name))["return"]))
                case Constant(value) if isinstance(value, str):
                    found.append(_STRING)
                case _ if name == "isoformat":
                    found.append(_STRING)
                case _:
                    self._refuse(node)
        return either(found)

    def _builtin(self, node: ast.Call, name: str) -> Shape:
        shapes = [self.shape(each) for each in node.args if not isinstance(each, ast.Starred)]
        match name, shapes:
            case "str", [shape]:
                return either(map(_as_text, options(shape)))
            case (("list" | "tuple"), [shape]):
                return either(_as_list(each) for each in options(shape) if each != NULL)
            case (("sorted" | "reversed"), [shape]):
                return Array(items(shape))
            case "dict", [shape]:
                return self._dictionary(shape)
            case "fromkeys", [Row(names)]:
                return Object({each.value: Property(NULL) for each in names if isinstance(each, Constant)})
            case "map", [Constant(function), over]:
                return Array(self._mapped(function, items(over)))
            case "zip", [Row(left), Row(right)]:
                return Row(tuple(map(lambda *pair: Row(pair), left, right)))
            case "zip", [left, right]:
                return Array(Row((items(left), items(right))))
            case "len" | "int" | "round", _:
                return _INTEGER
            case "bool" | "any" | "all" | "isinstance", _:
                return _BOOLEAN
            case "sum", [shape]:
                return either((items(shape), _INTEGER))
            case "getattr", [owner, Constant(attribute_name)]:
                return attribute(owner, attribute_name)
            case (("max" | "min"), shapes):
                return either(shapes) if len(shapes) > 1 else items(shapes[0])
        self._refuse(node)

    def _mapped(self, function: Any, item: Shape) -> Shape:
        if function is str:
            return either(map(_as_text, options(item)))
        return self.writers.reference(function) if _is_writer(function) else Value(_hints(function)["return"])

    def _dictionary(self, shape: Shape) -> Shape:
        found = []
        for each in options(shape):
            match each:
                case Row(pairs) if all(isinstance(pair, Row) and isinstance(pair.items[0], Constant) for pair in pairs):
                    found.append(Object({pair.items[0].value: Property(pair.items[1]) for pair in pairs}))  # type: ignore[union-attr]
                case Object():
                    found.append(each)
                case Value(hint) if _is_mapping(hint):
                    key, value = (*typing.get_args(hint), Any, Any)[:2]
                    found.append(Object({}, Value(value), None if key in (str, Any) else Value(key)))
                case Constant(None):
                    pass
                case _:
                    key, value = parts(items(each), 2)
                    found.append(Object({}, value, None if options(key) == (_STRING,) else key))
        return _joined(found)


def _as_list(shape: Shape) -> Shape:
    """Return the shape of `list(shape)`; a tuple keeps its length."""
    match shape:
        case Row():
            return shape
        case Value(hint) if typing.get_origin(hint) is tuple and Ellipsis not in typing.get_args(hint):
            return Row(tuple(map(Value, typing.get_args(hint))))
        case _:
            return Array(items(shape))


def _as_text(shape: Shape) -> Shape:
    """Return the shape of `str(shape)`; an enum keeps its values."""
    match shape:
        case Constant(value) if isinstance(value, enum.Enum):
            return Constant(str(value))
        case Constant(value):
            return Constant(str(value))
        case Value(hint) if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
            return shape
    return _STRING


def refers(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return the function of `module:name`."""
    if callable(function):
        return function
    module, _, name = function.partition(":")
    return typing.cast(Callable[..., Any], getattr(importlib.import_module(module), name))
