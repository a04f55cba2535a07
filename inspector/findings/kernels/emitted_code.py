"""Parse the module that Inductor generated for a graph part: the source and the calls of each kernel.

The module is never executed. A kernel is defined as `name = async_compile.triton('name', '''source''', ...)` or
`name = async_compile.cpp_pybinding([...], r'''source''')` (2.11 and 2.13, `define_kernel` of codegen/triton.py and
cpp.py), and called as `name.run(...)`, `name(...)`, or, for a library
function, by its name.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

_COMPILERS = "async_compile."
_IDLE = re.compile(
    r"^ +(?:"
    r"(?:\w+ = (?:empty_strided\w*|rand_strided|reinterpret_tensor)|assert_\w+)"
    r"\((?:[\w., '=]|\([\w, ]*\))*+\)(?:; del \w+)?"
    r"|\w+ = \w+; del \w+|del \w+"
    r")(?:  # reuse)?$",
    re.MULTILINE,
)
"""Statements that allocate, check or free buffers: most of a module, and neither calls of kernels nor numbers."""
_BODIES = ("body", "orelse", "handlers", "finalbody")
"""Fields of `ast` nodes with nested statements; an exception handler has such fields too."""


class EmittedCall(Struct, frozen=True):
    """One call of a kernel."""

    kernel: str
    line: str
    """The source of the statement that makes the call."""
    arguments: tuple[tuple[str, ast.expr], ...]
    """The arguments with their keywords; a positional argument has an empty keyword."""


class Emitted(Struct, frozen=True):
    """A parsed module."""

    sources: dict[str, str]
    calls: dict[str, list[EmittedCall]]
    """The calls, keyed by kernel, in source order."""
    assigned: dict[str, ast.expr]
    """The last value that the module assigns to each name, without buffers that it allocates or views."""


def parse(text: str, kernels: Collection[str]) -> Emitted:
    """Parse a module that calls these kernels.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: the text is not Python, or is damaged.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in a kernel's text
        module = _parsed(text)
    calls: dict[str, list[EmittedCall]] = {}
    statements = list(_statements(module.body))
    for call in _calls(statements, text.split("\n"), kernels):
        calls.setdefault(call.kernel, []).append(call)
    return Emitted(dict(_sources(module)), calls, dict(_assigned(statements)))


def _parsed(text: str) -> ast.Module:
    """Parse a module without its idle statements, in a third of the time; lines keep their numbers.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: as for `parse`.
    """
    after = max(text.rfind("'''"), 0)  # where the last source of a kernel ends
    try:
        return ast.parse(text[:after] + _IDLE.sub("", text[after:]))
    except SyntaxError:  # damaged, or a block has nothing else
        return ast.parse(text)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.Expr | ast.Assign]:
    """Yield expressions and assignments in source order, including those in functions and blocks."""
    for statement in body:
        if isinstance(statement, ast.Expr | ast.Assign):
            yield statement
        for name in _BODIES:
            yield from _statements(getattr(statement, name, ()))


def _sources(module: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function, args=arguments)):
                if dotted(function).startswith(_COMPILERS):
                    texts = [each.value for each in arguments if isinstance(each, ast.Constant)]
                    yield from ((name, text.strip("\n")) for text in texts[-1:] if isinstance(text, str))


def _assigned(statements: list[ast.Expr | ast.Assign]) -> Iterator[tuple[str, ast.expr]]:
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value


def _calls(
    statements: list[ast.Expr | ast.Assign], lines: list[str], kernels: Collection[str]
) -> Iterator[EmittedCall]:
    # Most statements only allocate or free memory; a search of the text is faster than a walk of each tree.
    named = re.compile("|".join(map(re.escape, kernels)))
    for statement in statements:
        line = "\n".join(lines[statement.lineno - 1 : statement.end_lineno]).strip()
        if named.search(line) is None:
            continue
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Call) and (name := _kernel(dotted(node.func), kernels)):
                yield EmittedCall(name, line, _arguments(node))
                break


def _kernel(called: str, kernels: Collection[str]) -> str | None:
    if called in kernels:
        return called
    name, _, method = called.rpartition(".")
    if name in kernels and method in ("run", name):
        return name
    return None


def _arguments(call: ast.Call) -> tuple[tuple[str, ast.expr], ...]:
    named = ((each.arg or "", each.value) for each in call.keywords if each.arg != "stream")
    return (*(("", each) for each in call.args), *named)


def dotted(node: ast.expr) -> str:
    """Return the text of a dotted name; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([node.id, *reversed(parts)])
    return ""
