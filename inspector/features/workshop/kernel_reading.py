"""Read a user's Triton kernel and the place that launches it (`SourceFile`). The file is parsed, never executed.

`flow_of` follows a kernel's pointers through its source to the loads and stores that use them. Triton's own analysis
reads the compiled kernel and so needs the arguments of a call; this one needs the source alone. It is conservative: a
pointer that flows into something unknown counts as written.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.workshop.triton_op_model import Decorator, JitFunction, JitLaunch
from ctrace.inspector.runs.target import holds
from ctrace.inspector.source.text import python_lines

_STORES = {"store", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg",
           "atomic_xor"}  # fmt: skip
_LOADS = {"load"}
_DESCRIPTOR = {"gather": False, "scatter": True, "load": False, "store": True}
"""Methods of tensor descriptors: whether each writes."""
_LANGUAGE = ("tl", "triton", "language", "libdevice", "tl_math", "math")
# Chosen: helpers that call helpers; a recursive one, which Triton refuses, must end here.
_MOST_DEPTH = 8


class Flow(Struct):
    """The parameters that a kernel reads and writes, and what is not certain."""

    read: dict[str, None] = field(default_factory=dict)
    written: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    """Functions of unknown source that get a pointer."""


def flow_of(kernel: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> Flow:
    """Return which parameters a kernel reads and writes; `functions` are the other functions of the file."""
    found = Flow()
    roots = {name: frozenset([name]) for name in parameters_of(kernel)}
    for _ in range(2 + len(kernel.body)):  # a loop may pass a pointer from its end to its start
        before = dict(roots)
        walk = _Walk(roots, found, functions, depth)
        for statement in kernel.body:
            walk.visit(statement)
        if roots == before:
            break
    return found


def scalars_of(kernel: ast.FunctionDef) -> frozenset[str]:
    """Return the parameters that the kernel uses as numbers: it multiplies, divides or compares them."""
    names = frozenset(parameters_of(kernel))
    found: set[str] = set()
    for node in ast.walk(kernel):
        match node:
            # `pointer + offset` is arithmetic of addresses; nobody multiplies, divides or compares those.
            case ast.BinOp(left=left, right=right, op=op) if not isinstance(op, ast.Add | ast.Sub):
                found |= {each.id for each in (left, right) if isinstance(each, ast.Name)}
            case ast.Compare(left=left, comparators=others):
                found |= {each.id for each in (left, *others) if isinstance(each, ast.Name)}
            case ast.UnaryOp(operand=ast.Name(id=name)):
                found.add(name)
            case ast.Call() if called_name(node) in _NUMBERS:
                found |= {each.id for each in _arguments(node) if isinstance(each, ast.Name)}
    return names & found


_NUMBERS = {
    "arange",
    "cdiv",
    "range",
    "static_range",
    "zeros",
    "full",
    "program_id",
    "num_programs",
    "maximum",
    "minimum",
}


def parameters_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of a function's parameters, in order."""
    arguments = function.args
    return tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


class _Walk(ast.NodeVisitor):
    """Visits the statements of one function, and keeps for each variable the parameters that it is made from."""

    def __init__(
        self, roots: dict[str, frozenset[str]], found: Flow, functions: Mapping[str, ast.FunctionDef], depth: int
    ) -> None:
        self._roots = roots
        self._found = found
        self._functions = functions
        self._depth = depth

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._assign(node.target, node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name = called_name(node)
        if not isinstance(node.func, ast.Attribute) or _is_language(node.func.value):
            self._function(node, name)
        elif name in _DESCRIPTOR:
            self._use(self.roots(node.func.value), writes=_DESCRIPTOR[name])

    def _function(self, node: ast.Call, name: str) -> None:
        pointer: ast.expr | None = next((each.value for each in node.keywords), None)
        if node.args:
            pointer = node.args[0]
        if name in _STORES | _LOADS and isinstance(node.func, ast.Attribute):
            if pointer is not None:
                self._use(self.roots(pointer), writes=name in _STORES)
        elif isinstance(node.func, ast.Name) and name in self._functions:
            self._helper(node, self._functions[name])
        elif name == "inline_asm_elementwise" or (isinstance(node.func, ast.Name) and name not in _BUILTINS):
            passed = frozenset[str]().union(*(self.roots(each) for each in _arguments(node)))
            # A function of another file, or assembly, may write to each pointer that it gets.
            if passed:
                self._found.unknown[name] = None
                self._use(passed, writes=True)

    def _helper(self, node: ast.Call, helper: ast.FunctionDef) -> None:
        """Follow pointers into another function of the file."""
        names = parameters_of(helper)
        passed = dict(zip(names, node.args, strict=False))
        passed |= {each.arg: each.value for each in node.keywords if each.arg is not None}
        inner = Flow()
        if self._depth < _MOST_DEPTH:  # functions may call each other
            inner = flow_of(helper, self._functions, self._depth + 1)
        self._found.unknown.update(inner.unknown)
        for name, value in passed.items():
            if name in inner.written:
                self._use(self.roots(value), writes=True)
            if name in inner.read:
                self._use(self.roots(value), writes=False)

    def _use(self, names: frozenset[str], *, writes: bool) -> None:
        uses = self._found.written if writes else self._found.read
        uses.update(dict.fromkeys(sorted(names)))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = [value] * len(target.elts)  # which part is which is not known: each may be any
            if isinstance(value, ast.Tuple | ast.List):
                values = value.elts
            for each, of in zip(target.elts, values, strict=False):
                self._assign(each, of)
        elif isinstance(target, ast.Name):
            # With what it was before: the statements of a loop or a branch may not have run.
            self._roots[target.id] = self._roots.get(target.id, frozenset()) | self.roots(value)

    def roots(self, node: ast.expr) -> frozenset[str]:
        """Return the parameters whose address a value is made from: the value of a load has none."""
        match node:
            case ast.Name(id=name):
                return self._roots.get(name, frozenset())
            case ast.Call():
                return self._roots_of_call(node)
            # A comparison of addresses is a mask.
            case ast.Compare() | ast.Constant():
                return frozenset()
        children = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return frozenset[str]().union(*map(self.roots, children))

    def _roots_of_call(self, node: ast.Call) -> frozenset[str]:
        if called_name(node) in _VALUES:
            return frozenset()
        inside = []
        if isinstance(node.func, ast.Attribute) and not _is_language(node.func.value):
            inside = [node.func.value]
        return frozenset[str]().union(*map(self.roots, (*inside, *_arguments(node))))


_VALUES = {"load", "arange", "program_id", "num_programs", "zeros", "full", "dot", "sum", "max", "min", "argmax",
           "argmin", *(_STORES - {"store"})}  # fmt: skip
"""Functions that return values, never an address."""
_BUILTINS = {"range", "min", "max", "len", "int", "float", "abs", "print", "isinstance", "tuple"}


def called_name(node: ast.Call) -> str:
    """Return the last part of the name of a called function."""
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _is_language(node: ast.expr) -> bool:
    """Whether an attribute belongs to Triton's language, such as the `tl` of `tl.store`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _LANGUAGE


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
        lines = python_lines(self.text)[first - 1 : node.end_lineno]
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
        if line:
            where = f"{path}, line {line}"
        else:
            where = str(path)
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
            # In front, so that functions come in the order of the file.
            todo = [*inner, *todo]


def kernels_of(file: SourceFile) -> dict[str, ast.FunctionDef]:
    """Return the `@triton.jit` functions of a file."""
    return {name: node for name, node in file.functions.items() if any(map(_is_jit, node.decorator_list))}


def _is_jit(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        node = decorator.func
    else:
        node = decorator
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
    # Without the kernel itself, which Triton does not let call itself.
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
        # A size flows into an address, `pointer + row * stride`, and so into the store; it is no tensor.
        written=tuple(each for each in parameters_of(node) if each in flow.written and each not in numbers),
        read=tuple(each for each in parameters_of(node) if each in flow.read and each not in numbers),
        assumed=assumed,
    )


def _is_constant(node: ast.FunctionDef, name: str) -> bool:
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    found = next(each.annotation for each in arguments if each.arg == name)
    text = ""
    if found is not None:
        text = ast.unparse(found)
    return "constexpr" in text


def _decorator(node: ast.expr) -> Decorator:
    if isinstance(node, ast.Call):
        called = node.func
    else:
        called = node
    if isinstance(called, ast.Attribute):
        name = called.attr
    else:
        name = getattr(called, "id", "")
    keywords: tuple[str, ...] = ()
    if isinstance(node, ast.Call):
        # `triton.autotune(configs, key)` also takes these two without their names.
        if name == "autotune":
            positional = ("configs", "key")[: len(node.args)]
        else:
            positional = ()
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
    # An operator can be made of a plain function only, so its launch is the one to wrap.
    return sorted(found, key=lambda each: (each.is_method or each.is_nested or each.function is None, each.line))


class _Launches:
    """Finds `kernel[grid](...)` and `wrap_triton(kernel)[grid](...)`."""

    def __init__(self, kernel: JitFunction) -> None:
        self._kernel = kernel

    def of(self, node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[JitLaunch]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            owner = node.func.value
            # torch called it capture_triton first, and takes both names (_library/triton.py, 2.13).
            wrapped = isinstance(owner, ast.Call) and called_name(owner) in ("wrap_triton", "capture_triton")
            if isinstance(owner, ast.Call) and wrapped and owner.args:
                name = owner.args[0]
            else:
                name = owner
            if isinstance(name, ast.Name) and name.id == self._kernel.name:
                yield self._launch(node, node.func, around, is_wrapped=wrapped)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            inner = (*around, node)
        else:
            inner = around
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
