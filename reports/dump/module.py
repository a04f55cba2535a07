"""Parse the module that Inductor generated for a graph part, without running it.

Of a kernel, the parameters are read from its source: their names and dtypes, and which are written or used as indexes.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from ctrace.inspector.grouping import collected
from ctrace.reports import format as fmt

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


def string(text: str) -> str:
    """Write any text as a one-line literal."""
    return ascii(text)


def block(text: str) -> str:
    """Write any text as a multi-line literal, which is easy to read and edit, or else as a one-line literal."""
    written = f"r'''{text}'''"
    try:
        is_same = ast.literal_eval(written) == text
    except (SyntaxError, ValueError, MemoryError):  # the text would end the literal early, or contains a zero byte
        is_same = False
    return written if is_same else string(text)


def comment(text: str, limit: int = 110) -> str:
    """Write any text as a one-line comment."""
    return f"# {fmt.one_line(text, limit)}"


def comments(lines: Iterable[str]) -> Iterator[str]:
    """Write lines as comments; skip empty ones."""
    for line in lines:
        if line:
            yield comment(line)


_TRITON_TYPES = {
    "fp64": "torch.float64", "fp32": "torch.float32", "fp16": "torch.float16", "bf16": "torch.bfloat16",
    "i64": "torch.int64", "i32": "torch.int32", "i16": "torch.int16", "i8": "torch.int8", "u8": "torch.uint8",
    "u16": "torch.uint16", "u32": "torch.uint32", "u64": "torch.uint64", "i1": "torch.bool",
    "fp8e4nv": "torch.float8_e4m3fn", "fp8e5": "torch.float8_e5m2",
}  # fmt: skip
_CPP_TYPES = {
    "double": "torch.float64", "float": "torch.float32", "at::Half": "torch.float16", "half": "torch.float16",
    "at::BFloat16": "torch.bfloat16", "bfloat16": "torch.bfloat16", "int64_t": "torch.int64",
    "int32_t": "torch.int32", "int16_t": "torch.int16", "int8_t": "torch.int8", "uint8_t": "torch.uint8",
    "bool": "torch.bool", "c10::complex<float>": "torch.complex64", "c10::complex<double>": "torch.complex128",
}  # fmt: skip
_SET = re.compile(r"^\s*(?:auto |[\w:<>]+ )?(tmp\d+) = (.*)$", re.MULTILINE)
_VALUE = re.compile(r"\btmp\d+\b")
_POINTER = re.compile(r"\b(?:in|out|in_out)_ptr\d+\b")
_CHECK = re.compile(r"index out of bounds: 0 <= (tmp\d+) < (\d+)")
_CONSTANT = re.compile(r"(?:tl\.full\([^,]*(?:\[[^\]]*\])?, |static_cast<\w+>\(|c10::convert<\w+>\()?(\d+)L?\b[^+*/]*$")
_SUM = re.compile(r"(?:\w+\()?(tmp\d+) \+ (tmp\d+)\)?;?")


class LaunchParameter(Struct, frozen=True):
    """One parameter of a kernel, in launch order."""

    name: str
    dtype: str = ""
    """dtype of the elements that it points to; empty if it is not a pointer, or if not known."""
    written: bool = False
    below: int | None = None
    """Exclusive upper bound of its integers, if the kernel uses them as indexes; None if not known."""


def parameters(kernel: Defined) -> tuple[LaunchParameter, ...]:
    """List a kernel's parameters; empty if its source cannot be parsed."""
    found = _of_triton(kernel.source) if kernel.language == "triton" else _of_cpp(kernel)
    limits = bounds(kernel.source)
    return tuple(LaunchParameter(each.name, each.dtype, each.written, limits.get(each.name)) for each in found)


def _of_triton(source: str) -> list[LaunchParameter]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    signature, mutated = _meta(tree, "signature"), _meta(tree, "mutated_arg_names")
    types = signature if isinstance(signature, dict) else {}
    changed = mutated if isinstance(mutated, list) else []
    return [_parameter(str(name), str(type_), changed) for name, type_ in types.items() if not _is_block(str(name))]


def _is_block(name: str) -> bool:
    """Whether the configuration, not the launch, sets the parameter."""
    return name.isupper() or (name.endswith("BLOCK") and name[0].isupper())


def _parameter(name: str, type_: str, changed: list[object]) -> LaunchParameter:
    dtype = _TRITON_TYPES.get(type_.lstrip("*"), "") if type_.startswith("*") else ""
    written = name in changed or name.startswith(("out_ptr", "in_out_ptr", "out_"))
    return LaunchParameter(name, dtype, written)


def _meta(tree: ast.Module, key: str) -> object:
    """Find the value of a key in the source's dictionaries, which are arguments of decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == key:
                    return _literal(value)
    return None


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _of_cpp(kernel: Defined) -> list[LaunchParameter]:
    names = re.findall(r"[*&]\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])|\b(k\w+)\s*(?=[,)])", _head(kernel.source))
    found = [first or second for first, second in names]
    named = found if len(found) == len(kernel.types) else [f"arg{index}" for index in range(len(kernel.types))]
    return [
        LaunchParameter(
            name,
            _CPP_TYPES.get(type_.removeprefix("const ").rstrip("*& "), "") if "*" in type_ else "",
            "*" in type_ and not type_.startswith("const "),
        )
        for name, type_ in zip(named, kernel.types, strict=True)
    ]


def _head(source: str) -> str:
    """Cut out a C++ kernel's parameter list."""
    _, _, rest = source.partition("kernel(")
    return rest.partition("{")[0]


def bounds(source: str) -> dict[str, int]:
    """Return the exclusive upper bound of the integers behind each pointer that the kernel uses as indexes.

    The bound is in the check that Inductor writes before an indirect load. Without a check, it is the size that
    Inductor adds to a negative index. From there, follow the assignments back to the loads of the index.
    """
    values = collected((name, text) for name, text in _SET.findall(source))
    found: dict[str, int] = {}
    for name, limit in [*_CHECK.findall(source), *_wrapped(source, values)]:
        for pointer in _loaded(name, values):
            found[pointer] = min(int(limit[:18]), found.get(pointer, int(limit[:18])))
    return found


def _wrapped(source: str, values: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Find `tmp + size` if the source also tests `tmp < 0`."""
    pairs = []
    for texts in values.values():
        for text in texts:
            match = _SUM.search(text)
            if match and re.search(rf"\b{match[1]} < 0\b", source):
                pairs += [(match[1], size) for size in _constants(match[2], values)]
    return pairs


def _constants(name: str, values: dict[str, list[str]]) -> list[str]:
    """Find the constants that a value may be; follow assignments and conversions."""
    seen, todo, found = {name}, [name], list[str]()
    while todo:
        for text in values.get(todo.pop(), ()):
            inner = _VALUE.search(text)
            if inner and inner[0] not in seen:
                seen.add(inner[0])
                todo.append(inner[0])
            elif not inner and (match := _CONSTANT.search(text)):
                found.append(match[1])
    return [each for each in found if int(each[:18]) > 1]


def _loaded(name: str, values: dict[str, list[str]]) -> set[str]:
    """Find the pointers that a value was loaded from, through any number of assignments; stop at each load."""
    seen, todo, found = {name}, [name], set[str]()
    while todo:
        for text in values.get(todo.pop(), ()):
            pointers = _POINTER.findall(text)
            found.update(pointers[:1])
            new = set() if pointers else set(_VALUE.findall(text)) - seen
            seen |= new
            todo += new
    return found
