"""Convert steps to expressions and statements of Python's syntax tree."""

import ast
from collections.abc import Callable

from ctrace.inspector.features.bytecode.decompile.symbolic_values import Event, StopError
from ctrace.inspector.features.bytecode.decompile.variable_names import identifier

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
    """Return the operator that a symbol such as `+` stands for."""
    return _BINARY[symbol]


def _call(event: Event, operands: Expressions) -> ast.expr:
    names: tuple[str, ...] = event.detail
    positional = operands[1 : len(operands) - len(names)]
    values = operands[len(operands) - len(names) :]
    if len(positional) == 1 and isinstance(positional[0], ast.Starred) and not names:
        # `f(*x)` compiles to `call_ex`, which passes x on as is. This step unpacked x into a list: `f(*[*x])`.
        positional = [ast.Starred(ast.List(positional, ast.Load()), ast.Load())]
    keywords = [ast.keyword(identifier(name), value) for name, value in zip(names, values, strict=True)]
    return ast.Call(operands[0], positional, keywords)


def _call_ex(event: Event, operands: Expressions) -> ast.expr:
    arguments = operands[1]
    starred: Expressions = [ast.Starred(arguments, ast.Load())]
    positional = arguments.elts if isinstance(arguments, ast.Tuple) else starred
    keywords = [] if len(operands) == 2 else _mapping(operands[2])
    return ast.Call(operands[0], positional, keywords)


def _mapping(mapping: ast.expr) -> list[ast.keyword]:
    if not isinstance(mapping, ast.Dict) or not mapping.keys:
        return [ast.keyword(None, mapping)]
    made = []
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        made.append(ast.keyword(None if key is None else identifier(str(name)), value))
    return made


def _format(event: Event, operands: Expressions) -> ast.expr:
    value, conversion = operands[0], _CONVERSIONS[event.detail]
    if isinstance(value, ast.FormattedValue):
        conversion, value = value.conversion, value.value
    spec = operands[1] if len(operands) > 1 else None
    if spec is not None and not isinstance(spec, ast.JoinedStr):
        spec = ast.JoinedStr([spec])
    return ast.JoinedStr([ast.FormattedValue(value, conversion, spec)])


def _string(event: Event, operands: Expressions) -> ast.expr:
    parts = [part for each in operands for part in (each.values if isinstance(each, ast.JoinedStr) else [each])]
    return ast.JoinedStr(parts)


def merged(operands: Expressions) -> ast.Dict:
    """Merge several dict displays into one; mappings that are not displays become `**mapping`."""
    keys: list[ast.expr | None] = []
    values: Expressions = []
    for each in operands:
        if isinstance(each, ast.Starred):
            keys.append(None)
            values.append(each.value)
        elif isinstance(each, ast.Dict):
            keys.extend(each.keys)
            values.extend(each.values)
        else:
            raise StopError("A dict display contains an item that is not a key-value pair.")
    return ast.Dict(keys, values)


EXPRESSIONS: dict[str, Callable[[Event, Expressions], ast.expr]] = {
    "load_global": lambda event, operands: loaded(event.detail),
    "load_deref": lambda event, operands: loaded(event.detail),
    "getattr": lambda event, operands: ast.Attribute(operands[0], identifier(event.detail), ast.Load()),
    "getitem": lambda event, operands: ast.Subscript(operands[0], operands[1], ast.Load()),
    "unary": lambda event, operands: ast.UnaryOp(_UNARY[event.detail], operands[0]),
    "binary": lambda event, operands: ast.BinOp(operands[0], _BINARY[event.detail], operands[1]),
    "compare": lambda event, operands: ast.Compare(operands[0], [_COMPARED[event.detail]], [operands[1]]),
    "contains": lambda event, operands: ast.Compare(operands[0], [ast.In()], [operands[1]]),
    "call": _call,
    "call_ex": _call_ex,
    "format": _format,
    "convert": lambda event, operands: ast.FormattedValue(operands[0], _CONVERSIONS[event.detail], None),
    "string": _string,
    "dict": lambda event, operands: merged(operands),
    "set": lambda event, operands: ast.Set(operands),
    "spread": lambda event, operands: operands[0],
    "dict_merge": lambda event, operands: operands[0],
    "dict_update": lambda event, operands: operands[0],
    "iter": lambda event, operands: operands[0],
    "test": lambda event, operands: operands[0],
}


def _raise(event: Event, operands: Expressions) -> ast.stmt:
    return ast.Raise(operands[0], operands[1] if len(operands) > 1 else None)


def _stored_attribute(event: Event, operands: Expressions) -> ast.stmt:
    return assigned(ast.Attribute(operands[1], identifier(event.detail), ast.Store()), operands[0])


def _stored_item(event: Event, operands: Expressions) -> ast.stmt:
    return assigned(ast.Subscript(operands[1], operands[2], ast.Store()), operands[0])


STATEMENTS: dict[str, Callable[[Event, Expressions], ast.stmt]] = {
    "setattr": _stored_attribute,
    "delattr": lambda event, operands: ast.Delete([ast.Attribute(operands[0], identifier(event.detail), ast.Del())]),
    "setitem": _stored_item,
    "delitem": lambda event, operands: ast.Delete([ast.Subscript(operands[0], operands[1], ast.Del())]),
    "store_global": lambda event, operands: assigned(stored(event.detail), operands[0]),
    "store_deref": lambda event, operands: assigned(stored(event.detail), operands[0]),
    "delete_global": lambda event, operands: ast.Delete([ast.Name(identifier(event.detail), ast.Del())]),
    "delete_deref": lambda event, operands: ast.Delete([ast.Name(identifier(event.detail), ast.Del())]),
    "raise": _raise,
}
