"""Parse the statement of one node: `mm: "f32[2, 3][3, 1]cpu" = torch.ops.aten.mm.default(a, b);  a = None`.

How each kind of node is printed: fx/graph.py, `CodeGen._gen_python_code`, `emit_node` (2.11 to 2.13).
"""

import re
from collections.abc import Container
from functools import lru_cache

from msgspec import Struct

from ctrace.inspector.findings.graphs.text.fx import Kind
from ctrace.inspector.findings.graphs.text.scan import all_names_in, closing, splits_at

_ANNOTATED = r"(?P<name>[^\W\d]\w*)(?: ?: ?(?:\"(?P<annotation>[^\"\n]*)\"|(?P<type>[^\"=]+?)))?"
_STATEMENT = re.compile(rf"{_ANNOTATED} = (?P<value>.*)", re.DOTALL)
_FREED = re.compile(r";  (?:[^\W\d]\w* = )+None$")
_IN_PLACE = re.compile(rf"(?P<done>.+);  {_ANNOTATED} = (?P<same>.+)", re.DOTALL)
_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_ON_SELF = re.compile(r"(?:getattr\()*self\b")
_USUAL = re.compile(
    r"([^\W\d]\w*): \"([^\"\n]*)\" = "
    r"(?:(torch(?:\.[^\W\d]\w*)++)\(((?:[^()\[\]{}\"'\n]|\[[^()\[\]{}\"'\n]*+\])*+)\)|([^\W\d]\w*)\[(\d+)\])"
    r"(?:;  (?:[^\W\d]\w* = )+None)?"
)
"""A call of an op whose arguments have no strings and no nested brackets, or an item of a tuple: most statements."""
_ARGUMENT = re.compile(r", ([^\W\d]\w*): \"([^\"=\\\n]*)\"")
_ARGUMENTS = re.compile(rf"self(?:{_ARGUMENT.pattern.replace('(', '(?:')})*+")
_PLACEHOLDER = re.compile(rf"\*{{0,2}}{_ANNOTATED}")
_UNARY = {"-": "neg", "+": "pos", "~": "invert"}
_BINARY = {
    " == ": "eq", " != ": "ne", " <= ": "le", " >= ": "ge", " << ": "lshift", " >> ": "rshift", " ** ": "pow",
    " // ": "floordiv", " < ": "lt", " > ": "gt", " + ": "add", " - ": "sub", " * ": "mul", " / ": "truediv",
    " % ": "mod", " & ": "and_", " | ": "or_", " ^ ": "xor", " @ ": "matmul",
}  # fmt: skip
_CHANGING = {
    " += ": "iadd", " &= ": "iand", " //= ": "ifloordiv", " <<= ": "ilshift", " %= ": "imod", " *= ": "imul",
    " @= ": "imatmul", " |= ": "ior", " **= ": "ipow", " >>= ": "irshift", " -= ": "isub", " /= ": "itruediv",
    " ^= ": "ixor",
}  # fmt: skip
_OPERATOR = "operator."


class Statement(Struct, frozen=True):
    """The parts of a statement that assigns to a node: its name, its annotation, and its value."""

    name: str
    annotation: str
    value: str
    change: str = ""
    """For an in-place operation, the statement of the operation, which torch prints before the name."""


class Call(Struct, frozen=True):
    """What a node does; `args` is the text of its arguments."""

    kind: Kind
    target: str
    args: str = ""


@lru_cache(maxsize=20_000)
def usual(text: str) -> tuple[str, str, str, str, tuple[str, ...]] | None:
    """Parse a statement of the usual form in one step, which several stages of a graph have; None: of another form.

    Return its name, annotation, target, arguments, and the names that may be nodes that it reads; they are what
    `statement` and `call` return, unless a node has the name `torch`.
    """
    match = _USUAL.fullmatch(text)
    if match is None or match[5] == "self":
        return None
    name, annotation, target, args, whole, at = match.groups()
    if target is None:
        target, args = f"{_OPERATOR}getitem", f"{whole}, {at}"
    return name, annotation, target, args, tuple(dict.fromkeys(all_names_in(args)))


def plain_arguments(text: str) -> list[tuple[str, str]] | None:
    """Parse the arguments of a graph's function to names and annotations; None: one has another form."""
    return _ARGUMENT.findall(text) if _ARGUMENTS.fullmatch(text) else None


def statement(text: str) -> Statement | None:
    """Split a line into its parts; return None if it is not the statement of a node."""
    if text.endswith("None"):
        text = _FREED.sub("", text)
    if match := _STATEMENT.fullmatch(text):
        return Statement(match["name"], match["annotation"] or "", match["value"])
    if match := _IN_PLACE.fullmatch(text):
        return Statement(match["name"], match["annotation"] or "", match["same"], match["done"])
    return None


def call(parts: Statement, known: Container[str]) -> Call | None:
    """Parse what a statement does, or return None if that fails; `known` has the names of earlier nodes."""
    if parts.change:
        return _changed(parts.change)
    value = parts.value
    if _ON_SELF.match(value) and "self" not in known:
        return _of_module(value)
    return _called(value, known) or _attribute(value, known) or _item(value) or _operation(value)


def _called(value: str, known: Container[str]) -> Call | None:
    path = _PATH.match(value)
    if path is None or not value.startswith("(", path.end()) or closing(value, path.end()) != len(value) - 1:
        return None
    target, args = path[0], value[path.end() + 1 : -1]
    first, _, method = target.partition(".")
    if method and first in known:
        return Call(Kind.CALL_METHOD, method, f"{first}, {args}" if args else first)
    return Call(Kind.CALL_FUNCTION, target, args)


def _attribute(value: str, known: Container[str]) -> Call | None:
    path = _PATH.fullmatch(value)
    first, _, name = value.partition(".")
    return Call(Kind.CALL_FUNCTION, "getattr", f"{first}, '{name}'") if path and name and first in known else None


def _item(value: str) -> Call | None:
    if not value.endswith("]"):
        return None
    path = _PATH.match(value)
    if path is None or not value.startswith("[", path.end()) or closing(value, path.end()) != len(value) - 1:
        return None
    return Call(Kind.CALL_FUNCTION, f"{_OPERATOR}getitem", f"{path[0]}, {value[path.end() + 1 : -1]}")


def _operation(value: str) -> Call | None:
    for sign, name in _BINARY.items():
        at = splits_at(value, sign)
        if at > 0:
            left, right = value[:at], value[at + len(sign) :]
            return Call(Kind.CALL_FUNCTION, _OPERATOR + name, f"{left}, {right}")
    name = _UNARY.get(value[:1], "")
    return Call(Kind.CALL_FUNCTION, _OPERATOR + name, value[1:]) if name and len(value) > 1 else None


def _changed(text: str) -> Call | None:
    for sign, name in _CHANGING.items():
        at = splits_at(text, sign)
        if at > 0:
            return Call(Kind.CALL_FUNCTION, _OPERATOR + name, f"{text[:at]}, {text[at + len(sign) :]}")
    at = splits_at(text, " = ")
    item = _item(text[:at]) if at > 0 else None
    return Call(Kind.CALL_FUNCTION, f"{_OPERATOR}setitem", f"{item.args}, {text[at + 3 :]}") if item else None


def _of_module(value: str) -> Call | None:
    """Parse `self.a.b`, `getattr(self.layers, "0").weight`, and calls of these."""
    parts: list[str] = []
    open_ = 0
    rest = value
    while rest.startswith("getattr("):
        open_, rest = open_ + 1, rest.removeprefix("getattr(")
    rest = rest.removeprefix("self")
    while rest:
        if match := re.match(r"\.([^\W\d]\w*)", rest):
            parts.append(match[1])
        elif open_ and (match := re.match(r', "([^"\n]*)"\)', rest)):
            parts.append(match[1])
            open_ -= 1
        else:
            break
        rest = rest[match.end() :]
    target = ".".join(parts)
    if open_ or not parts:
        return None
    if not rest:
        return Call(Kind.GET_ATTR, target)
    is_call = rest.startswith("(") and closing(rest, 0) == len(rest) - 1
    return Call(Kind.CALL_MODULE, target, rest[1:-1]) if is_call else None


def placeholder(text: str) -> Statement | None:
    """Parse one argument of a graph's function: a name, an annotation, a default."""
    name, _, default = text.partition(" = ")
    match = _PLACEHOLDER.fullmatch(name.strip())
    return Statement(match["name"], match["annotation"] or "", default) if match else None
