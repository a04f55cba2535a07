"""The parts of the module that Inductor wrote for a graph part: header, kernels, functions, inputs; read, never run."""

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

_KINDS = {"triton": "triton", "cpp_pybinding": "cpp"}
_NOT_NEEDED = ("get_args", "benchmark_compiled_module")
"""Functions for torch's own timing; the inputs are read from the first (2.11) or from both."""


class Defined(Struct, frozen=True):
    """A kernel that the module defines: `name = async_compile.KIND(...)`."""

    name: str
    language: str
    """`triton` or `cpp`."""
    source: str
    function: str = ""
    """Of a Triton kernel: what it is called in its source; a kernel that the user wrote has another name outside."""
    types: tuple[str, ...] = ()
    """Of a C++ kernel: the types of its arguments."""


class Module(Struct, frozen=True):
    """What is in the output code of a graph part."""

    imports: tuple[ast.stmt, ...] = ()
    header: tuple[ast.stmt, ...] = ()
    """Assignments before the first kernel, such as `aten = torch.ops.aten`."""
    kernels: Mapping[str, Defined] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    """Kernels of a kind that cannot be dumped, and the kind; they stay in the wrapper."""
    kept: tuple[ast.stmt, ...] = ()
    """What follows: the runner, `call` and those below it."""
    functions: Mapping[str, ast.FunctionDef] = field(default_factory=dict)
    """`call`, and `partition_0` and the like, wherever they are."""
    inputs: tuple[ast.stmt, ...] = ()
    """How torch makes inputs like those that it compiled for."""


def read(text: str) -> Module | None:
    """Take output code apart; None: it is no Python module with a `call`, as with a C++ wrapper."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if "call" not in functions:
        return None
    return _sorted(tree, functions)


def _sorted(tree: ast.Module, functions: dict[str, ast.FunctionDef]) -> Module:
    imports, header, kept = list[ast.stmt](), list[ast.stmt](), list[ast.stmt]()
    kernels, others = dict[str, Defined](), dict[str, str]()
    in_header = True
    for statement in tree.body:
        in_header = in_header and isinstance(statement, ast.Import | ast.ImportFrom | ast.Assign | ast.Try)
        if (made := _compiled(statement)) is not None:
            in_header = False
            name, kind, call = made
            found = _defined(name, kind, call)
            if found is None:
                others[name] = kind
                kept.append(statement)
            else:
                kernels[name] = found
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            imports.append(statement)
        elif in_header and _is_assigned(statement):
            header.append(statement)
        elif not is_for_torch(statement):
            kept.append(statement)
    maker = functions.get("get_args") or functions.get("benchmark_compiled_module")
    return Module(
        imports=tuple(imports),
        header=tuple(header),
        kernels=kernels,
        others=others,
        kept=tuple(_without_compiling(kept, keep=bool(others))),
        functions=functions,
        inputs=tuple(maker.body) if maker else (),
    )


def _compiled(statement: ast.stmt) -> tuple[str, str, ast.Call] | None:
    """Recognise `name = async_compile.kind(...)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr=kind)) as call,
        ):
            return name, kind, call
    return None


def _defined(name: str, kind: str, call: ast.Call) -> Defined | None:
    language = _KINDS.get(kind)
    match language, call.args:
        case "triton", [ast.Constant(value=str() as function), ast.Constant(value=str() as source), *_]:
            return Defined(name, "triton", source, function)
        case "cpp", [ast.List(elts=types), ast.Constant(value=str() as source), *_]:
            texts = [each.value for each in types if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            return Defined(name, "cpp", source, types=tuple(texts)) if len(texts) == len(types) else None
    return None


def _is_assigned(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and all(isinstance(each, ast.Name) for each in statement.targets)


def is_for_torch(statement: ast.stmt) -> bool:
    """Whether a statement serves torch's own timing only."""
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test) == "__name__ == '__main__'"
    return isinstance(statement, ast.FunctionDef) and statement.name in _NOT_NEEDED


def _without_compiling(statements: list[ast.stmt], *, keep: bool) -> Iterator[ast.stmt]:
    """Leave out that kernels are waited for, where none is left to wait for."""
    for statement in statements:
        if keep or ast.unparse(statement) not in ("async_compile.wait(globals())", "del async_compile"):
            yield statement


def bound(statement: ast.stmt) -> list[str]:
    """List the names that a statement of a header binds."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    return []
