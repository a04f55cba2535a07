"""Read a user's Triton kernel and the place that launches it. The file is parsed, never executed."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.workshop.triton_ops.pointers import called_name, flow_of, parameters_of, scalars_of
from ctrace.inspector.features.workshop.triton_ops.triton_op_model import Decorator, JitFunction, JitLaunch
from ctrace.inspector.runs.target import holds

_SETTINGS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "grid", "warmup", "stream")


class SourceFile(Struct, frozen=True):
    """A parsed file with kernels."""

    path: Path
    text: str
    tree: ast.Module
    functions: Mapping[str, ast.FunctionDef]
    """The functions of the module, also under `if` and `try`."""

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def whole(self, node: ast.FunctionDef) -> str:
        """Return a function's text with its decorators, without the indentation of the `if` around it."""
        import textwrap

        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        lines = self.text.splitlines()[first - 1 : node.end_lineno]
        return textwrap.dedent("\n".join(lines))


def split(text: str) -> tuple[Path, str]:
    """Split `FILE:kernel`.

    Raises:
        TargetError: there is no such file, or no kernel is named.
    """
    before, colon, name = text.rpartition(":")
    if not colon or not name or not before:
        raise TargetError(f"{text!r} names no kernel", "name one: ctrace kernels wrap model.py:add_kernel")
    path = Path(before)
    if not holds(path.is_file):
        near = did_you_mean(path.name, _files(path.parent), "name a Python file")
        raise TargetError(f"there is no file {before}", near)
    return path, name


def _files(folder: Path) -> list[str]:
    if holds(folder.is_dir):
        return sorted(each.name for each in folder.glob("*.py"))
    return []


def parsed(path: Path) -> SourceFile:
    """Parse a file.

    Raises:
        TargetError: it cannot be read, or Python cannot parse it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}, line {line}" if line else str(path)
        what = f"{where}: {getattr(error, 'msg', error)}"
        raise TargetError(what, "correct the file; Python cannot read it") from None
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}", "check the file's permissions") from None
    return SourceFile(path, text, tree, {each.name: each for each in _top_functions(tree)})


def _top_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module, also those under `if` and `try`."""
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.FunctionDef):
            yield node
        elif not isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt | ast.ExceptHandler)]
            todo = [*inner, *todo]


def kernels_of(file: SourceFile) -> dict[str, ast.FunctionDef]:
    """Return the `@triton.jit` functions of a file."""
    return {name: node for name, node in file.functions.items() if any(map(_is_jit, node.decorator_list))}


def _is_jit(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    match node:
        case ast.Attribute(value=ast.Name(id="triton"), attr="jit") | ast.Name(id="jit"):
            return True
    return False


def kernel_named(file: SourceFile, name: str) -> JitFunction:
    """Return one kernel of a file.

    Raises:
        TargetError: there is none of that name, or it is not a kernel.
    """
    kernels = kernels_of(file)
    if name not in kernels:
        if name in file.functions:
            what = f"{name} in {file.path} is not a Triton kernel: it has no @triton.jit"
        else:
            what = f"{file.path} has no kernel {name}"
        none = "the file has no @triton.jit function at its top level"
        raise TargetError(what, did_you_mean(name, kernels) if kernels else none)
    node = kernels[name]
    flow = flow_of(node, {each: one for each, one in file.functions.items() if each != name})
    constants = tuple(each for each in parameters_of(node) if _is_constant(node, each))
    numbers = scalars_of(node) | set(constants)
    assumed = ""
    if flow.unknown:
        assumed = f"{', '.join(flow.unknown)}: source not found, so the tensors that it gets count as written"
    return JitFunction(
        name=name,
        parameters=parameters_of(node),
        constants=constants,
        decorators=tuple(map(_decorator, node.decorator_list)),
        node=node,
        written=tuple(each for each in parameters_of(node) if each in flow.written and each not in numbers),
        read=tuple(each for each in parameters_of(node) if each in flow.read and each not in numbers),
        assumed=assumed,
    )


def _is_constant(node: ast.FunctionDef, name: str) -> bool:
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    found = next(each.annotation for each in arguments if each.arg == name)
    text = "" if found is None else ast.unparse(found)
    return "constexpr" in text


def _decorator(node: ast.expr) -> Decorator:
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    keywords: tuple[str, ...] = ()
    if isinstance(node, ast.Call):
        positional = ("configs", "key")[: len(node.args)] if name == "autotune" else ()
        keywords = (*positional, *(each.arg for each in node.keywords if each.arg is not None))
    return Decorator(name, keywords, ast.unparse(node))


def launches_of(file: SourceFile, kernel: JitFunction) -> list[JitLaunch]:
    """Return the launches of a kernel in its file, those in plain functions of the module first.

    Raises:
        TargetError: the file has none.
    """
    found = list(_Launches(kernel).of(file.tree))
    if not found:
        what = f"nothing in {file.path} launches {kernel.name}"
        raise TargetError(what, f"name the file with {kernel.name}[grid](...), which has the grid and the arguments")
    return sorted(found, key=lambda each: (each.is_method or each.is_nested or each.function is None, each.line))


class _Launches:
    """Finds `kernel[grid](...)` and `wrap_triton(kernel)[grid](...)`."""

    def __init__(self, kernel: JitFunction) -> None:
        self._kernel = kernel

    def of(self, node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[JitLaunch]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            owner = node.func.value
            wrapped = isinstance(owner, ast.Call) and called_name(owner) in ("wrap_triton", "capture_triton")
            name = owner.args[0] if isinstance(owner, ast.Call) and wrapped and owner.args else owner
            if isinstance(name, ast.Name) and name.id == self._kernel.name:
                yield self._launch(node, node.func, around, is_wrapped=wrapped)
        inner = (*around, node) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda) else around
        for child in ast.iter_child_nodes(node):
            yield from self.of(child, inner)

    def _launch(
        self, call: ast.Call, subscript: ast.Subscript, around: tuple[ast.AST, ...], *, is_wrapped: bool
    ) -> JitLaunch:
        named = dict(zip(self._kernel.parameters, call.args, strict=False))
        keywords = {each.arg: each.value for each in call.keywords if each.arg is not None}
        functions = [each for each in around if isinstance(each, ast.FunctionDef)]
        return JitLaunch(
            call=call,
            line=call.lineno,
            grid=subscript.slice,
            arguments={**named, **{name: keywords[name] for name in self._kernel.parameters if name in keywords}},
            settings={name: value for name, value in keywords.items() if name not in self._kernel.parameters},
            function=functions[-1] if functions else None,
            is_method=any(isinstance(each, ast.ClassDef) for each in around),
            is_nested=len(functions) > 1,
            is_wrapped=is_wrapped,
        )
