"""Write a function for a launch alone, where the function around it cannot be an operator."""

import ast
import copy
from collections.abc import Mapping

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.triton_ops.kernel_functions import (
    OperatorArgument,
    OperatorFunction,
    local_values,
)
from ctrace.inspector.features.workshop.triton_ops.reading import SourceFile
from ctrace.inspector.features.workshop.triton_ops.triton_op_model import JitFunction, JitLaunch

_INTEGERS = ("numel", "size", "stride", "cdiv", "next_power_of_2", "len", "dim", "int")
_MOST_STEPS = 6
_FLOATS = ("eps", "scale", "alpha", "beta", "momentum", "dropout", "prob", "rate")


def launching_function(
    file: SourceFile, kernel: JitFunction, launch: JitLaunch, types: Mapping[str, str]
) -> tuple[OperatorFunction, str]:
    """Return a function that launches the kernel, with the kernel's own arguments, and the text of its grid.

    Raises:
        TargetError: the grid depends on something that is not an argument of the kernel.
    """
    name = kernel.name.removesuffix("_kernel") if kernel.name != "kernel" else "launch"
    if name == kernel.name or (launch.function is not None and launch.function.name == name):
        name = f"{name}_op"
    inlined = {each: value for each, value in launch.arguments.items() if _is_global(file, value)}
    arguments = [_argument(kernel, launch, each, types) for each in launch.arguments if each not in inlined]
    grid = _grid(file, kernel, launch, {each.name for each in arguments}, inlined)
    passed = [f"{each}={each if each not in inlined else ast.unparse(inlined[each])}" for each in launch.arguments]
    passed += [f"{each}={ast.unparse(value)}" for each, value in launch.settings.items()]
    text = f"def {name}({', '.join(each.name for each in arguments)}):\n    {kernel.name}[{grid}]({', '.join(passed)})"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    mutates = tuple(each.name for each in arguments if each.name in kernel.written)
    return OperatorFunction(name, tuple(arguments), "None", mutates, None, node), grid


def _is_global(file: SourceFile, value: ast.expr) -> bool:
    """Whether a value is a literal or a constant of the module."""
    if isinstance(value, ast.Constant):
        return True
    assignments = [each for each in file.tree.body if isinstance(each, ast.Assign)]
    bound = {target.id for each in assignments for target in each.targets if isinstance(target, ast.Name)}
    return isinstance(value, ast.Name) and value.id in bound


def _argument(kernel: JitFunction, launch: JitLaunch, name: str, types: Mapping[str, str]) -> OperatorArgument:
    if name in kernel.read or name in kernel.written:
        return OperatorArgument(name, "Tensor")
    if name in types:
        return OperatorArgument(name, types[name])
    value = launch.arguments[name]
    called = value.func if isinstance(value, ast.Call) else value
    word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if word in _INTEGERS or isinstance(value, ast.Subscript):
        return OperatorArgument(name, "int")
    is_float = any(word.lower().endswith(each) or name.lower().endswith(each) for each in _FLOATS)
    return OperatorArgument(name, "float" if is_float else "int", is_assumed=True)


def _grid(
    file: SourceFile, kernel: JitFunction, launch: JitLaunch, names: set[str], inlined: Mapping[str, ast.expr]
) -> str:
    """Return the grid in terms of the kernel's arguments.

    Raises:
        TargetError: it depends on something else.
    """
    locals_ = local_values(launch.function) if launch.function is not None else {}
    functions = _functions_in(launch.function)
    known = {each: ast.unparse(value) for each, value in launch.arguments.items() if each not in inlined}
    grid: ast.AST = copy.deepcopy(launch.grid)
    for _ in range(_MOST_STEPS):
        if isinstance(grid, ast.Name) and grid.id in functions:
            grid = functions[grid.id]
        grid = _Renamed(known).visit(grid)
        left = _unknown(file, grid, names)
        if not left:
            return ast.unparse(ast.fix_missing_locations(grid))
        grid = _Replaced({name: locals_[name] for name in left if name in locals_}).visit(grid)
    what = f"{file.path}:{launch.line}: the grid of {kernel.name} depends on {', '.join(sorted(left))}"
    raise TargetError(what, "pass it to the kernel, or move the launch into a function that allocates and returns")


def _functions_in(node: ast.FunctionDef | None) -> dict[str, ast.expr]:
    """Return the one-line functions in a function, as lambdas."""
    found: dict[str, ast.expr] = {}
    for each in ast.walk(node) if node is not None else ():
        match each:
            case ast.FunctionDef(name=name, args=arguments, body=[*_, ast.Return(value=ast.expr() as value)]):
                if len(each.body) == 1:
                    found[name] = ast.Lambda(args=arguments, body=value)
    return found


def _unknown(file: SourceFile, grid: ast.AST, names: set[str]) -> set[str]:
    bound = {each.arg for one in ast.walk(grid) if isinstance(one, ast.Lambda) for each in one.args.args}
    used = {each.id for each in ast.walk(grid) if isinstance(each, ast.Name)}
    top = {
        name for each in file.tree.body for name in ([each.name] if isinstance(each, ast.FunctionDef) else _bound(each))
    }
    return used - bound - names - top - {"triton", "torch", "max", "min", "int", "len"}


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return []


class _Renamed(ast.NodeTransformer):
    """Replaces expressions that the launch passes to the kernel by the kernel's names for them."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._names = {text: name for name, text in known.items()}

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (name := self._names.get(ast.unparse(node))) is not None:
            return ast.Name(id=name, ctx=ast.Load())
        visited: ast.AST = super().visit(node)
        return visited


class _Replaced(ast.NodeTransformer):
    """Replaces local variables by their values."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self._values.get(node.id, node))
