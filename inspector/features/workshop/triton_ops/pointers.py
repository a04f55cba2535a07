"""Follow a kernel's pointers through its source to the loads and stores that use them.

Triton's own analysis reads the compiled kernel and so needs the arguments of a call; this one needs the source alone.
It is conservative: a pointer that flows into something unknown counts as written.
"""

import ast
from collections.abc import Mapping

from msgspec import Struct, field

_STORES = {"store", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg",
           "atomic_xor"}  # fmt: skip
_LOADS = {"load"}
_DESCRIPTOR = {"gather": False, "scatter": True, "load": False, "store": True}
"""Methods of tensor descriptors: whether each writes."""
_LANGUAGE = ("tl", "triton", "language", "libdevice", "tl_math", "math")
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
        pointer = node.args[0] if node.args else next((each.value for each in node.keywords), None)
        if name in _STORES | _LOADS and isinstance(node.func, ast.Attribute):
            if pointer is not None:
                self._use(self.roots(pointer), writes=name in _STORES)
        elif isinstance(node.func, ast.Name) and name in self._functions:
            self._helper(node, self._functions[name])
        elif name == "inline_asm_elementwise" or (isinstance(node.func, ast.Name) and name not in _BUILTINS):
            passed = frozenset[str]().union(*(self.roots(each) for each in _arguments(node)))
            if passed:
                self._found.unknown[name] = None
                self._use(passed, writes=True)

    def _helper(self, node: ast.Call, helper: ast.FunctionDef) -> None:
        """Follow pointers into another function of the file."""
        names = parameters_of(helper)
        passed = dict(zip(names, node.args, strict=False))
        passed |= {each.arg: each.value for each in node.keywords if each.arg is not None}
        inner = flow_of(helper, self._functions, self._depth + 1) if self._depth < _MOST_DEPTH else Flow()
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
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            for each, of in zip(target.elts, values, strict=False):
                self._assign(each, of)
        elif isinstance(target, ast.Name):
            self._roots[target.id] = self._roots.get(target.id, frozenset()) | self.roots(value)

    def roots(self, node: ast.expr) -> frozenset[str]:
        """Return the parameters whose address a value is made from: the value of a load has none."""
        match node:
            case ast.Name(id=name):
                return self._roots.get(name, frozenset())
            case ast.Call():
                return self._roots_of_call(node)
            case ast.Compare() | ast.Constant():
                return frozenset()
        children = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return frozenset[str]().union(*map(self.roots, children))

    def _roots_of_call(self, node: ast.Call) -> frozenset[str]:
        if called_name(node) in _VALUES:
            return frozenset()
        inside = [node.func.value] if isinstance(node.func, ast.Attribute) and not _is_language(node.func.value) else []
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
