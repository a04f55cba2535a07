"""Write the module with the operator (`wrapped`): the kernel, the function around it, a fake, the way to run on a CPU,
FLOPs.

The module gets what the functions need of their own: imports, constants and other functions. FLOPs are counted for a
kernel that computes element by element, and left to the user for others.

Where the function around a launch cannot be an operator, one is written for the launch alone (`launching_function`).
"""

import ast
import copy
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.kernel_functions import (
    OperatorArgument,
    OperatorFunction,
    Unsuitable,
    function_of,
    local_values,
    refuse_wrapped,
)
from ctrace.inspector.features.workshop.kernel_reading import (
    SourceFile,
    called_name,
    kernel_named,
    kernels_of,
    launches_of,
)
from ctrace.inspector.features.workshop.triton_op_model import JitFunction, JitLaunch, Wrapped

_INTEGERS = ("numel", "size", "stride", "cdiv", "next_power_of_2", "len", "dim", "int")
# Chosen: assignments from a size to a grid; each step looks one name further up.
_MOST_STEPS = 6
_FLOATS = ("eps", "scale", "alpha", "beta", "momentum", "dropout", "prob", "rate")


def launching_function(
    file: SourceFile, kernel: JitFunction, launch: JitLaunch, types: Mapping[str, str]
) -> tuple[OperatorFunction, str]:
    """Return a function that launches the kernel, with the kernel's own arguments, and the text of its grid.

    Raises:
        TargetError: the grid depends on something that is not an argument of the kernel.
    """
    name = "launch"
    if kernel.name != "kernel":
        name = kernel.name.removesuffix("_kernel")
    # The module defines the kernel, too, and the user's file keeps its function.
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
    # The surest first: a pointer is a tensor, then what a call has shown, then what the launch passes, then the name.
    if name in kernel.read or name in kernel.written:
        return OperatorArgument(name, "Tensor")
    if name in types:
        return OperatorArgument(name, types[name])
    value = launch.arguments[name]
    called = value
    if isinstance(value, ast.Call):
        called = value.func
    word = getattr(called, "id", "")
    if isinstance(called, ast.Attribute):
        word = called.attr
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
    locals_: Mapping[str, ast.expr] = {}
    if launch.function is not None:
        locals_ = local_values(launch.function)
    functions = _functions_in(launch.function)
    known = {each: ast.unparse(value) for each, value in launch.arguments.items() if each not in inlined}
    grid: ast.AST = copy.deepcopy(launch.grid)
    # Local variables are replaced until only the kernel's arguments are left; a chain of them takes several rounds.
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
    if node is None:
        return {}
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name, args=arguments, body=[*_, ast.Return(value=ast.expr() as value)]):
                # What stands before the return would be lost in a lambda.
                if len(each.body) == 1:
                    found[name] = ast.Lambda(args=arguments, body=value)
    return found


def _unknown(file: SourceFile, grid: ast.AST, names: set[str]) -> set[str]:
    bound = {each.arg for one in ast.walk(grid) if isinstance(one, ast.Lambda) for each in one.args.args}
    used = {each.id for each in ast.walk(grid) if isinstance(each, ast.Name)}
    top = {
        name
        for each in file.tree.body
        for name in ([each.name] if isinstance(each, ast.FunctionDef) else _bound_by(each))
    }
    return used - bound - names - top - {"triton", "torch", "max", "min", "int", "len"}


def _bound_by(node: ast.stmt) -> list[str]:
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
        # Whole expressions first: a launch may pass `x.numel()`, of which the kernel does not know `x`.
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


_WRITTEN = {"torch", "triton", "tl", "Tensor", "triton_op", "wrap_triton", "register_flop_formula"}
"""Names that every written module imports."""


class Needed(Struct):
    """The statements of a module that some names need, in the order of the file."""

    imports: dict[str, None] = field(default_factory=dict)
    statements: dict[int, str] = field(default_factory=dict)
    """Text of constants and functions, by line."""
    missing: dict[str, None] = field(default_factory=dict)
    """Names that the file binds in a way that cannot be copied."""


def needed_by(file: SourceFile, nodes: Iterable[ast.AST], without: Iterable[str]) -> Needed:
    """Return what the nodes need; `without` are names that the new module defines itself."""
    found, done = Needed(), {*without, *_WRITTEN}
    bound = _bound(file)
    todo = [name for node in nodes for name in free_names(node)]
    # What a needed statement reads is needed, too.
    while todo:
        name = todo.pop(0)
        if name in done or name not in bound:
            continue
        done.add(name)
        statement = bound[name]
        match statement:
            case ast.Import() | ast.ImportFrom():
                found.imports[_import_of(statement, name)] = None  # only this name of several
            case ast.FunctionDef():
                found.statements[statement.lineno] = file.whole(statement)
                todo.extend(free_names(statement))
            case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign():
                found.statements[statement.lineno] = file.segment(statement)
                todo.extend(free_names(statement))
            case _:
                found.missing[name] = None
    return found


def _bound(file: SourceFile) -> dict[str, ast.stmt]:
    """Return the statement that binds each name of a module; of several, the first that is not under `except`."""
    found: dict[str, ast.stmt] = {}
    for statement in _statements(file.tree.body):
        for name in _names(statement):
            found.setdefault(name, statement)
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for each in body:
        yield each
        # Not what is under `except`: a name there is the replacement of one that is missing.
        if isinstance(each, ast.If | ast.Try | ast.With):
            yield from _statements(each.body)
            yield from _statements(getattr(each, "orelse", []))


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _import_of(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    for alias in statement.names:
        if (alias.asname or alias.name.partition(".")[0]) == name:
            named = alias.name
            if alias.asname:
                named = f"{alias.name} as {alias.asname}"
            if isinstance(statement, ast.Import):
                return f"import {named}"
            return f"from {'.' * statement.level}{statement.module or ''} import {named}"
    raise AssertionError(name)


def free_names(node: ast.AST) -> list[str]:
    """Return the names that a node reads, in order; some may be its own variables."""
    return list(dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)))


Spelled = Callable[[str], str]
"""Writes a kernel's name as it is launched, such as `wrap_triton(kernel)`."""
Types = Mapping[str, str]
"""Types of scalar arguments as a call passed them, by the kernel's parameter."""


def wrapped(file: SourceFile, name: str, seen: Iterable[str] | None = None, types: Types = {}) -> Wrapped:  # noqa: B006
    """Write the operator for a kernel.

    Args:
        seen: the parameters that the kernel writes to, from Triton's own analysis; None: take them from the source.
        types: types of scalar arguments, seen in a call.

    Raises:
        TargetError: there is no such kernel or launch, or no operator can be written for it.
    """
    kernel = kernel_named(file, name)
    launches = launches_of(file, kernel)
    launch = launches[0]  # of several, the first one; a note says so
    refuse_wrapped(launch, kernel, file.path)
    if seen is not None:
        kernel = replace(kernel, written=tuple(each for each in kernel.parameters if each in set(seen)), assumed="")
    notes = []
    if len(launches) != 1:
        notes = [f"{name} is launched at {len(launches)} lines; this is line {launch.line}"]
    try:
        function = function_of(kernel, kernel.written, launch)
        function = _with_other_kernels(file, function)
        grid = ""
    except Unsuitable as why:
        notes.append(f"the operator is the launch alone, with the tensors it writes as arguments: {why}")
        function, grid = launching_function(file, kernel, launch, types)
    return _Module(file, kernel, launch, function, grid, notes, seen is not None).wrapped()


def _with_other_kernels(file: SourceFile, function: OperatorFunction) -> OperatorFunction:
    """Add what other kernels in the function write to."""
    mutates = dict.fromkeys(function.mutates)
    for name in kernels_of(file):
        other = kernel_named(file, name)
        for launch in _launches_in(file, other, function.node):
            mutates.update(dict.fromkeys(function_of(other, other.written, launch).mutates))
    return replace(function, mutates=tuple(each.name for each in function.arguments if each.name in mutates))


def _launches_in(file: SourceFile, kernel: JitFunction, node: ast.FunctionDef) -> list[JitLaunch]:
    try:
        return [each for each in launches_of(file, kernel) if each.function is node]
    except TargetError:
        return []


class _Module:
    """Writes one module."""

    def __init__(
        self,
        file: SourceFile,
        kernel: JitFunction,
        launch: JitLaunch,
        function: OperatorFunction,
        grid: str,
        notes: list[str],
        is_seen: bool,
    ) -> None:
        self._file = file
        self._kernel = kernel
        self._launch = launch
        self._function = function
        self._is_launch_only = bool(grid)
        self._notes = notes
        self._is_seen = is_seen
        self._space = _identifier(file.path.stem)
        self._name = f"{self._space}::{function.name}"

    def wrapped(self) -> Wrapped:
        function = self._function
        used = [name for name in kernels_of(self._file) if name in _names_in(function.node)]
        nodes = [*(kernels_of(self._file)[name] for name in used), function.node]
        needed = needed_by(self._file, nodes, without=(function.name,))
        for name in needed.missing:
            self._notes.append(f"{name} of {self._file.path.name} is not copied: define it in the written file")
        for each in function.arguments:
            if each.is_assumed and each.type != "Tensor":
                self._notes.append(f"the type of {each.name} is a guess from its use: {each.type}")
        flops = flops_per_element(self._kernel)
        source = "\n".join([*self._head(needed, flops), *self._body(needed, flops)]).rstrip() + "\n"
        compile(source, "<written>", "exec")  # what is written must be Python
        written_source = "triton" if self._is_seen else "source"
        fake = "nothing is returned" if function.returns == "None" else "the function without its launches"
        cpu = "branch" if function.branch is not None else "interpreter"
        return Wrapped(
            name=self._name,
            function=function.name,
            kernel=self._kernel.name,
            file=str(self._file.path),
            line=self._launch.line,
            mutates=function.mutates,
            written=self._kernel.written,
            written_source=written_source,
            returns=function.returns,
            fake=fake,
            cpu=cpu,
            flops=flops,
            calls=self._calls(),
            notes=tuple(self._notes),
            source=source,
        )

    def _head(self, needed: Needed, flops: int | None) -> list[str]:
        title = f'"""`{self._function.name}` as a PyTorch operator around the Triton kernel `{self._kernel.name}`.'
        is_interpreted = self._function.branch is None
        library = "custom_op, triton_op, wrap_triton" if is_interpreted else "triton_op, wrap_triton"
        imports: list[str] = []
        if flops is not None:
            imports.append("import math")
        if is_interpreted:
            imports.append("from functools import partial")
        if imports:
            imports.append("")
        imports += ["import torch", "import triton", "import triton.language as tl", "from torch import Tensor"]
        imports.append(f"from torch.library import {library}")
        if flops is not None:
            imports.append("from torch.utils.flop_counter import register_flop_formula")
        return [
            title,
            "",
            f"Written from {self._file.path.name}, line {self._launch.line}. torch.compile looks into the operator: the"
            " kernel",
            'is a node of its graph. Import this module before the model calls the operator.\n"""',
            "",
            *imports,
            *(each for each in needed.imports if each not in ("import torch", "import triton", "import math")),
            "",
        ]

    def _body(self, needed: Needed, flops: int | None) -> list[str]:
        # Constants above functions: a decorator reads its configurations when the module is imported.
        parts = [text for _, text in sorted(needed.statements.items()) if not text.startswith(("@", "def "))]
        lines = [*parts, ""]
        functions = [text for _, text in sorted(needed.statements.items()) if text.startswith(("@", "def "))]
        for text in functions:
            lines += ["", text, ""]
        if self._function.branch is None:
            lines += ["", INTERPRETER, "", *self._on_cpu(), ""]
        lines += ["", *self._operator(), "", "", *self._fake(), "", "", *self._flops(flops)]
        return lines

    def _signature(self, *, annotated: bool = True) -> str:
        arguments = [_spelled(each) if annotated else each.name for each in self._function.arguments]
        return ", ".join(arguments)

    def _operator(self) -> list[str]:
        function = self._function
        mutates = "()"
        if function.mutates:
            mutates = "{" + ", ".join(f'"{name}"' for name in function.mutates) + "}"
        lines = [
            f'@triton_op("{self._name}", mutates_args={mutates})',
            f"def {function.name}({self._signature()}) -> {function.returns}:",
        ]
        body = self._text_of_body(lambda name: f"wrap_triton({name})")
        if function.branch is None:
            first = next((each.name for each in function.arguments if each.type.startswith("Tensor")), None)
            if first is not None:
                call = f"{function.name}_on_cpu({self._signature(annotated=False)})"
                if function.returns != "None":
                    text = f"return {call}"
                else:
                    text = f"{call}\n        return"
                body = [*_docstring(body), f'    if {first}.device.type == "cpu":\n        {text}', *_rest(body)]
        return [*lines, *body]

    def _on_cpu(self) -> list[str]:
        function = self._function
        mutates = "()"
        if function.mutates:
            mutates = "{" + ", ".join(f'"{name}"' for name in function.mutates) + "}"
        return [
            f'@custom_op("{self._name}_on_cpu", mutates_args={mutates}, device_types="cpu")',
            f"def {function.name}_on_cpu({self._signature()}) -> {function.returns}:",
            f'    """Runs the kernel of `{function.name}` in Triton\'s interpreter: for tests, and slow."""',
            *_rest(self._text_of_body(lambda name: f"Interpreted({name})")),
        ]

    def _fake(self) -> list[str]:
        function = self._function
        names = [f"{function.name}.register_fake"]
        if function.branch is None:
            names.append(f"{function.name}_on_cpu.register_fake")
        lines = [f"@{name}" for name in names]
        if len(names) > 1:  # each decorator returns what it gets
            lines = [f"@{names[0]}", f"@{names[1]}"]
        lines += [f"def _({self._signature()}) -> {function.returns}:"]
        if function.returns == "None":
            return [*lines, '    """Returns nothing, as the operator does: the kernel writes into its arguments."""']
        return [*lines, *_without_launches(function.node, function.branch, set(kernels_of(self._file)))]

    def _flops(self, flops: int | None) -> list[str]:
        op = f"torch.ops.{self._space}.{self._function.name}"
        tensor = next((each.name for each in self._function.arguments if each.type.startswith("Tensor")), "x")
        at = 0
        if self._function.arguments:
            at = [each.name for each in self._function.arguments].index(tensor)
        taken = "".join(f"_{each.name}, " for each in self._function.arguments[:at])
        if flops is None:
            return [
                "# FlopCounterMode counts nothing for this operator until it has a formula, such as:",
                "# from torch.utils.flop_counter import register_flop_formula",
                "#",
                f"# @register_flop_formula({op})",
                f"# def flops({taken}{tensor}_shape, *_args, out_shape=None, **_kwargs) -> int:",
                "#     return 2 * m * n * k",
            ]
        return [
            f"@register_flop_formula({op})",
            f"def flops({taken}{tensor}_shape, *_args, **_kwargs) -> int:",
            f'    """Counts {flops} floating-point operations per element, read from the source: check it."""',
            f"    return {flops} * math.prod({tensor}_shape)",
        ]

    def _text_of_body(self, spelled: Spelled) -> list[str]:
        """Return the text of the function's body, with its kernels spelled another way where they are launched."""
        node = copy.deepcopy(self._function.node)
        if self._is_launch_only:
            return textwrap.indent(ast.unparse(_Respelled(self._kernels(), spelled).visit(node)), "").splitlines()[1:]
        # Columns of Python's trees count bytes of UTF-8.
        lines = self._file.text.encode().splitlines()
        edits = [
            (each.value.lineno, each.value.col_offset, each.value.id)
            for each in ast.walk(self._function.node)
            if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name) and each.value.id in self._kernels()
        ]
        # From the end, so that what is longer now leaves the earlier columns right.
        for line, column, name in sorted(edits, reverse=True):
            whole = lines[line - 1]
            lines[line - 1] = whole[:column] + spelled(name).encode() + whole[column + len(name.encode()) :]
        first, last = self._function.node.body[0].lineno, self._function.node.end_lineno
        text = textwrap.dedent(b"\n".join(lines[first - 1 : last]).decode())
        return textwrap.indent(text, "    ").splitlines()

    def _kernels(self) -> set[str]:
        return set(kernels_of(self._file))

    def _calls(self) -> tuple[str, str]:
        module = f"{self._function.name}_op"
        if self._is_launch_only:
            arguments = [self._launch.arguments.get(each.name) for each in self._function.arguments]
            written = ", ".join(ast.unparse(each) for each in arguments if each is not None)
            return self._file.segment(self._launch.call), f"{self._function.name}({written})"
        return f"def {self._function.name}(...): ...", f"from {module} import {self._function.name}"


class _Respelled(ast.NodeTransformer):
    """Replaces the kernels of launches by other expressions."""

    def __init__(self, kernels: set[str], spelled: Spelled) -> None:
        self._kernels = kernels
        self._spelled = spelled

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self._kernels:
            node.value = ast.parse(self._spelled(node.value.id), mode="eval").body
        return node


def _spelled(argument: OperatorArgument) -> str:
    default = ""
    if argument.default:
        default = f" = {argument.default}"
    return f"{argument.name}: {argument.type}{default}"


def _identifier(name: str) -> str:
    text = "".join(each if each.isalnum() or each == "_" else "_" for each in name)
    if text.isidentifier():
        return text
    return f"ops_{text}"


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _docstring(body: list[str]) -> list[str]:
    return body[: len(body) - len(_rest(body))]


def _rest(body: list[str]) -> list[str]:
    """Return the lines of a function's body behind its docstring."""
    text = textwrap.dedent("\n".join(body))
    tree = ast.parse(f"def f():\n{textwrap.indent(text, '    ')}")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    if ast.get_docstring(function) is None:
        return body
    return body[(function.body[0].end_lineno or 1) - 1 :]


def _without_launches(node: ast.FunctionDef, branch: ast.If | None, kernels: set[str]) -> list[str]:
    """Return the lines of a function's body without its docstring, its launches, and what only they use."""
    body = [each for each in node.body if each is not branch and not _is_launch(each, kernels)]
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    # What only a dropped statement has read is unused then, too.
    while True:
        used = {name for each in body for name in _read_names(each)}
        kept = [each for each in body if not _assigns_only(each, used)]
        if len(kept) == len(body):
            break
        body = kept
    return textwrap.indent("\n".join(map(ast.unparse, body)), "    ").splitlines()


def _is_launch(node: ast.stmt, kernels: set[str]) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Subscript(value=ast.Name(id=name)))):
            return name in kernels
        case ast.With(body=body):
            return all(_is_launch(each, kernels) for each in body)
    return False


def _read_names(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _assigns_only(node: ast.stmt, used: set[str]) -> bool:
    """Whether a statement only assigns variables, or defines a function, that nothing reads."""
    match node:
        case ast.Assign(targets=targets):
            names = {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            return bool(names) and not names & used and all(isinstance(each, ast.Name | ast.Tuple) for each in targets)
        case ast.FunctionDef(name=name):
            return name not in used
    return False


_REDUCTIONS = {"dot", "dot_scaled", "sum", "max", "min", "reduce", "associative_scan", "cumsum", "cumprod", "softmax",
               "argmax", "argmin", "sort", "histogram", "trans"}  # fmt: skip
_FREE = {"load", "where", "to", "cast", "store", "bitcast", "broadcast_to", "reshape", "view", "expand_dims"}
"""Functions that move or choose values."""


def flops_per_element(kernel: JitFunction) -> int | None:
    """Return the operations per element; None for a kernel with a loop, a reduction or a matrix product."""
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.For | ast.While):
            return None
        if isinstance(node, ast.Call) and called_name(node) in _REDUCTIONS and _is_reduction(node):
            return None
    loaded: set[str] = set()
    number = 0
    for statement in kernel.node.body:
        number += sum(_is_operation(each, loaded) for each in ast.walk(statement))
        if isinstance(statement, ast.Assign) and _is_loaded(statement.value, loaded):
            loaded |= {
                each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)
            }
    return number or None


def _is_reduction(node: ast.Call) -> bool:
    """Whether a call reduces: `tl.max(x, 0)` does, Python's `max` of a grid does not."""
    return isinstance(node.func, ast.Attribute)


def _is_operation(node: ast.AST, loaded: set[str]) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return _is_loaded(left, loaded) or _is_loaded(right, loaded)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_loaded(operand, loaded)
        case ast.Call(args=arguments) if called_name(node) not in _FREE:
            return any(_is_loaded(each, loaded) for each in arguments)
    return False


def _is_loaded(node: ast.expr, loaded: set[str]) -> bool:
    """Whether a value is made from loaded values."""
    if isinstance(node, ast.Call) and called_name(node) == "load":
        return True
    if isinstance(node, ast.Name):
        return node.id in loaded
    # A comparison is a mask: choosing by it is no arithmetic on the loaded value.
    if isinstance(node, ast.Compare):
        return False
    return any(_is_loaded(each, loaded) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


INTERPRETER = '''class Interpreted:
    """A kernel that Triton's interpreter runs on the CPU, one program of the grid after the other."""

    def __init__(self, kernel) -> None:
        self._kernel = kernel

    def __getitem__(self, grid):
        return partial(self._launch, grid)

    def _launch(self, grid, *args, **kwargs) -> None:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        kernel, named = self._kernel, dict(kwargs)
        for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):  # about a GPU only
            named.pop(name, None)
        while not isinstance(kernel, JITFunction):
            if hasattr(kernel, "configs"):  # any configuration computes the same
                named |= kernel.configs[0].kwargs
            else:
                arguments = dict(zip(kernel.arg_names, args)) | named
                named |= {name: function(arguments) for name, function in kernel.values.items()}
            kernel = kernel.fn
        before = JITFunction.__call__
        JITFunction.__call__ = lambda helper, *values, **words: InterpretedFunction(helper.fn)(*values, **words)
        try:
            with torch.utils._python_dispatch._disable_current_modes():
                InterpretedFunction(kernel.fn)[grid](*args, **named)
        finally:
            JITFunction.__call__ = before
'''
