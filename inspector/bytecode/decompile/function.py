"""A whole function as a definition, functions inside it too."""

import ast
import re

from ctrace.inspector.bytecode.decompile.canonical import docstring
from ctrace.inspector.bytecode.decompile.machine import Placeholders
from ctrace.inspector.bytecode.decompile.names import identifier, reserved, uses
from ctrace.inspector.bytecode.decompile.operations import traced
from ctrace.inspector.bytecode.decompile.values import Arg, StopError
from ctrace.inspector.bytecode.decompile.writer import Writer
from ctrace.inspector.model.bytecode import Code

_VARARGS, _VARKEYWORDS = 0x04, 0x08
_LAMBDA = "<lambda>"


def definition(code: Code) -> ast.FunctionDef:
    """Write the definition of a function; a lambda is written as a function of that name."""
    name = re.sub(r"\W", "_", code.name)
    body = _body(code, None)
    return ast.FunctionDef(identifier(name), _parameters(code, [], {}), _declared(code) + body, [], lineno=0)


def _body(code: Code, placeholders: Placeholders = frozenset()) -> list[ast.stmt]:
    steps = traced(code, placeholders)
    writer = Writer(steps, uses(steps.block), reserved(code), _inner)
    writer.holds = {name: Arg(name) for name in _names(code)}
    return writer.write(steps.block)


def _inner(code: Code, defaults: list[ast.expr], named: dict[str, ast.expr]) -> ast.expr | ast.stmt:
    body, parameters = _body(code), _parameters(code, defaults, named)
    if code.name == _LAMBDA:
        match body:
            case [ast.Return(value=ast.expr() as value)]:
                return ast.Lambda(parameters, value)
        raise StopError("A lambda takes more than one expression.")
    text = docstring(code)
    first: list[ast.stmt] = [] if text is None else [ast.Expr(ast.Constant(ast.literal_eval(text)))]
    return ast.FunctionDef(identifier(code.name), parameters, first + _declared(code) + body, [], lineno=0)


def _names(code: Code) -> list[str]:
    count = code.arguments + code.keyword_only
    return list(code.variables[: count + bool(code.flags & _VARARGS) + bool(code.flags & _VARKEYWORDS)])


def _parameters(code: Code, defaults: list[ast.expr], named: dict[str, ast.expr]) -> ast.arguments:
    names = [ast.arg(identifier(name)) for name in _names(code)]
    plain, rest = names[: code.arguments], names[code.arguments :]
    keywords, rest = rest[: code.keyword_only], rest[code.keyword_only :]
    return ast.arguments(
        posonlyargs=plain[: code.positional_only],
        args=plain[code.positional_only :],
        vararg=rest.pop(0) if code.flags & _VARARGS else None,
        kwonlyargs=keywords,
        kw_defaults=[named.get(each.arg) for each in keywords],
        kwarg=rest.pop(0) if code.flags & _VARKEYWORDS else None,
        defaults=defaults,
    )


def _declared(code: Code) -> list[ast.stmt]:
    """Declare the variables that the function changes and that are not its own."""
    changed = [each for each in code.instructions if each.opname.startswith(("STORE_", "DELETE_"))]
    slots = [*code.variables, *(name for name in code.cells if name not in code.variables), *code.free]
    outer = {slots[each.arg or 0] for each in changed if each.opname.endswith("_DEREF")} & set(code.free)
    shared = {code.names[each.arg or 0] for each in changed if each.opname.endswith("_GLOBAL")}
    made: list[ast.stmt] = [ast.Nonlocal(sorted(map(identifier, outer)))] if outer else []
    return made + ([ast.Global(sorted(map(identifier, shared)))] if shared else [])
