"""Infer the dtypes of buffers from the kernels that take them."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from ctrace.inspector.findings.kernels.emitted_code import dotted
from ctrace.reports.dump.module import Module
from ctrace.reports.dump.signatures import Parameter


def base(argument: ast.expr) -> str:
    """Return the name of an argument's buffer, also for a view of the buffer."""
    match argument:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[ast.Name(id=name), *_]):
            return name
    return ""


def types_of_buffers(module: Module, taken: Mapping[str, tuple[Parameter, ...]]) -> dict[str, str]:
    """Return the dtypes of buffers from the kernels that take them; earlier names of a buffer get the same dtype."""
    found: dict[str, str] = {}
    renamed: list[tuple[str, str]] = []
    for node in _statements(module):
        for call in _calls(node):
            for parameter, argument in zip(
                taken.get(dotted(call.func).removesuffix(".run"), ()), call.args, strict=False
            ):
                if parameter.dtype and isinstance(argument, ast.Name):
                    found.setdefault(argument.id, parameter.dtype)
        match node:
            case ast.Assign(targets=[ast.Name(id=new)], value=value) if base(value):
                renamed.append((new, base(value)))
    for new, old in reversed(renamed):
        if new in found:
            found.setdefault(old, found[new])
    return found


def _statements(module: Module) -> Iterator[ast.AST]:
    for function in module.functions.values():
        yield from ast.walk(function)


def _calls(node: ast.AST) -> Iterable[ast.Call]:
    return [node] if isinstance(node, ast.Call) else []
