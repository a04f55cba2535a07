"""Steps as expressions and statements of Python's syntax tree."""

import ast
from collections.abc import Callable

from ctrace.inspector.bytecode.decompile.names import identifier
from ctrace.inspector.bytecode.decompile.values import Event, StopError

_BINARY: dict[str, ast.operator] = {
    "+": ast.Add(),
    "&": ast.BitAnd(),
    "//": ast.FloorDiv(),
    "<<": ast.LShift(),
    "@": ast.MatMult(),
    "*": ast.Mult(),
    "%": ast.Mod(),
    "|": ast.BitOr(),
    "**": ast.Pow(),
    ">>": ast.RShift(),
    "-": ast.Sub(),
    "/": ast.Div(),
    "^": ast.BitXor(),
}
_UNARY: dict[str, ast.unaryop] = {"+": ast.UAdd(), "-": ast.USub(), "~": ast.Invert()}
_COMPARED: dict[str, ast.cmpop] = {
    "<": ast.Lt(),
    "<=": ast.LtE(),
    "==": ast.Eq(),
    "!=": ast.NotEq(),
    ">": ast.Gt(),
    ">=": ast.GtE(),
}
_CONVERSIONS = {0: -1, 1: ord("s"), 2: ord("r"), 3: ord("a")}
Expressions = list[ast.expr]


def loaded(name: str) -> ast.Name:
    """Read a variable."""
    return ast.Name(identifier(name), ast.Load())


def stored(name: str) -> ast.Name:
    """Write a variable."""
    return ast.Name(identifier(name), ast.Store())


def assigned(target: ast.expr, value: ast.expr) -> ast.stmt:
    """Assign a value."""
    return ast.Assign([target], value, lineno=0)


def operator(symbol: str) -> ast.operator:
    """Return the operator of a symbol."""
    return _BINARY[symbol]


def _call(event: Event, given: Expressions) -> ast.expr:
    names: tuple[str, ...] = event.detail
    positional = given[1 : len(given) - len(names)]
    values = given[len(given) - len(names) :]
    if len(positional) == 1 and isinstance(positional[0], ast.Starred) and not names:
        # One starred argument alone is passed on as it is; this one's items were taken one by one.
        positional = [ast.Starred(ast.List(positional, ast.Load()), ast.Load())]
    keywords = [ast.keyword(identifier(name), value) for name, value in zip(names, values, strict=True)]
    return ast.Call(given[0], positional, keywords)


def _call_ex(event: Event, given: Expressions) -> ast.expr:
    arguments = given[1]
    starred: Expressions = [ast.Starred(arguments, ast.Load())]
    positional = arguments.elts if isinstance(arguments, ast.Tuple) else starred
    keywords = [] if len(given) == 2 else _mapping(given[2])
    return ast.Call(given[0], positional, keywords)


def _mapping(given: ast.expr) -> list[ast.keyword]:
    if not isinstance(given, ast.Dict) or not given.keys:
        return [ast.keyword(None, given)]
    made = []
    for key, value in zip(given.keys, given.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        made.append(ast.keyword(None if key is None else identifier(str(name)), value))
    return made


def _format(event: Event, given: Expressions) -> ast.expr:
    value, conversion = given[0], _CONVERSIONS[event.detail]
    if isinstance(value, ast.FormattedValue):
        conversion, value = value.conversion, value.value
    spec = given[1] if len(given) > 1 else None
    if spec is not None and not isinstance(spec, ast.JoinedStr):
        spec = ast.JoinedStr([spec])
    return ast.JoinedStr([ast.FormattedValue(value, conversion, spec)])


def _string(event: Event, given: Expressions) -> ast.expr:
    parts = [part for each in given for part in (each.values if isinstance(each, ast.JoinedStr) else [each])]
    return ast.JoinedStr(parts)


def merged(given: Expressions) -> ast.Dict:
    """Write one dict of several; what is no dict is spread."""
    keys: list[ast.expr | None] = []
    values: Expressions = []
    for each in given:
        if isinstance(each, ast.Starred):
            keys.append(None)
            values.append(each.value)
        elif isinstance(each, ast.Dict):
            keys.extend(each.keys)
            values.extend(each.values)
        else:
            raise StopError("A dict holds what is no pair.")
    return ast.Dict(keys, values)


EXPRESSIONS: dict[str, Callable[[Event, Expressions], ast.expr]] = {
    "load_global": lambda event, given: loaded(event.detail),
    "load_deref": lambda event, given: loaded(event.detail),
    "getattr": lambda event, given: ast.Attribute(given[0], identifier(event.detail), ast.Load()),
    "getitem": lambda event, given: ast.Subscript(given[0], given[1], ast.Load()),
    "unary": lambda event, given: ast.UnaryOp(_UNARY[event.detail], given[0]),
    "binary": lambda event, given: ast.BinOp(given[0], _BINARY[event.detail], given[1]),
    "compare": lambda event, given: ast.Compare(given[0], [_COMPARED[event.detail]], [given[1]]),
    "contains": lambda event, given: ast.Compare(given[0], [ast.In()], [given[1]]),
    "call": _call,
    "call_ex": _call_ex,
    "format": _format,
    "convert": lambda event, given: ast.FormattedValue(given[0], _CONVERSIONS[event.detail], None),
    "string": _string,
    "dict": lambda event, given: merged(given),
    "set": lambda event, given: ast.Set(given),
    "spread": lambda event, given: given[0],
    "dict_merge": lambda event, given: given[0],
    "dict_update": lambda event, given: given[0],
    "iter": lambda event, given: given[0],
    "test": lambda event, given: given[0],
}


def _raise(event: Event, given: Expressions) -> ast.stmt:
    return ast.Raise(given[0], given[1] if len(given) > 1 else None)


def _stored_item(event: Event, given: Expressions) -> ast.stmt:
    return assigned(ast.Subscript(given[1], given[2], ast.Store()), given[0])


STATEMENTS: dict[str, Callable[[Event, Expressions], ast.stmt]] = {
    "setattr": lambda event, given: assigned(ast.Attribute(given[1], identifier(event.detail), ast.Store()), given[0]),
    "delattr": lambda event, given: ast.Delete([ast.Attribute(given[0], identifier(event.detail), ast.Del())]),
    "setitem": _stored_item,
    "delitem": lambda event, given: ast.Delete([ast.Subscript(given[0], given[1], ast.Del())]),
    "store_global": lambda event, given: assigned(stored(event.detail), given[0]),
    "store_deref": lambda event, given: assigned(stored(event.detail), given[0]),
    "delete_global": lambda event, given: ast.Delete([ast.Name(identifier(event.detail), ast.Del())]),
    "delete_deref": lambda event, given: ast.Delete([ast.Name(identifier(event.detail), ast.Del())]),
    "raise": _raise,
}
