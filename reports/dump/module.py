"""Parse the module that Inductor generated for a graph part, without running it."""

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

_KINDS = {"triton": "triton", "cpp_pybinding": "cpp"}
_NOT_NEEDED = ("get_args", "benchmark_compiled_module")
"""Functions of torch's own benchmark; `get_args` makes the inputs (2.11 to 2.15), or else the other function."""


class Defined(Struct, frozen=True):
    """A kernel that the module defines: `name = async_compile.KIND(...)`."""

    name: str
    language: str
    """`triton` or `cpp`."""
    source: str
    function: str = ""
    """For a Triton kernel: its name in its own source; a user-written kernel has another name in the wrapper."""
    types: tuple[str, ...] = ()
    """For a C++ kernel: the types of its arguments."""


class OutputModule(Struct, frozen=True):
    """The parts of a graph part's output code."""

    imports: tuple[ast.stmt, ...] = ()
    header: tuple[ast.stmt, ...] = ()
    """Assignments before the first kernel, such as `aten = torch.ops.aten`."""
    kernels: Mapping[str, Defined] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    """Kernels that ctrace cannot dump, each with its kind; they stay in the wrapper."""
    kept: tuple[ast.stmt, ...] = ()
    """All other statements, such as the runner and `call`."""
    functions: Mapping[str, ast.FunctionDef] = field(default_factory=dict)
    """All functions, such as `call` and `partition_0`, also those inside classes."""
    inputs: tuple[ast.stmt, ...] = ()
    """The statements with which torch makes inputs like those it compiled for."""


def read(text: str) -> OutputModule | None:
    """Parse output code; return None if it is not a Python module with a `call`, such as a C++ wrapper."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if "call" not in functions:
        return None
    return _sorted(tree, functions)


def _sorted(tree: ast.Module, functions: dict[str, ast.FunctionDef]) -> OutputModule:
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
    return OutputModule(
        imports=tuple(imports),
        header=tuple(header),
        kernels=kernels,
        others=others,
        kept=tuple(_without_compiling(kept, keep=bool(others))),
        functions=functions,
        inputs=tuple(maker.body) if maker else (),
    )


def _compiled(statement: ast.stmt) -> tuple[str, str, ast.Call] | None:
    """Recognize `name = async_compile.kind(...)`."""
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
            if len(texts) == len(types):
                return Defined(name, "cpp", source, types=tuple(texts))
            return None
    return None


def _is_assigned(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and all(isinstance(each, ast.Name) for each in statement.targets)


def is_for_torch(statement: ast.stmt) -> bool:
    """Whether a statement is only for torch's own benchmark."""
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test) == "__name__ == '__main__'"
    return isinstance(statement, ast.FunctionDef) and statement.name in _NOT_NEEDED


def _without_compiling(statements: list[ast.stmt], *, keep: bool) -> Iterator[ast.stmt]:
    """Drop the statements that wait for kernels to compile, unless the module still compiles some."""
    for statement in statements:
        if keep or ast.unparse(statement) not in ("async_compile.wait(globals())", "del async_compile"):
            yield statement


def bound(statement: ast.stmt) -> list[str]:
    """List the names that a statement binds."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    return []
