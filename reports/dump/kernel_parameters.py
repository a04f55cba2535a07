"""Read from a kernel's source what it takes: names and dtypes, and which are written or used as indexes."""

import ast
import re

from msgspec import Struct

from ctrace.inspector.grouping import collected
from ctrace.reports.dump.module import Defined

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
    if kernel.language == "triton":
        found = _of_triton(kernel.source)
    else:
        found = _of_cpp(kernel)
    limits = bounds(kernel.source)
    return tuple(LaunchParameter(each.name, each.dtype, each.written, limits.get(each.name)) for each in found)


def _of_triton(source: str) -> list[LaunchParameter]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    signature, mutated = _meta(tree, "signature"), _meta(tree, "mutated_arg_names")
    if not isinstance(signature, dict):
        return []
    if not isinstance(mutated, list):
        mutated = []
    types = {str(name): str(type_) for name, type_ in signature.items()}
    return [_parameter(name, type_, mutated) for name, type_ in types.items() if not _is_block(name)]


def _is_block(name: str) -> bool:
    """Whether the configuration, not the launch, sets the parameter."""
    return name.isupper() or (name.endswith("BLOCK") and name[0].isupper())


def _parameter(name: str, type_: str, changed: list[object]) -> LaunchParameter:
    dtype = ""
    if type_.startswith("*"):
        dtype = _TRITON_TYPES.get(type_.lstrip("*"), "")
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
    if len(found) != len(kernel.types):
        found = [f"arg{index}" for index in range(len(kernel.types))]
    return [_cpp_parameter(name, type_) for name, type_ in zip(found, kernel.types, strict=True)]


def _cpp_parameter(name: str, type_: str) -> LaunchParameter:
    if "*" not in type_:
        return LaunchParameter(name)
    dtype = _CPP_TYPES.get(type_.removeprefix("const ").rstrip("*& "), "")
    return LaunchParameter(name, dtype, written=not type_.startswith("const "))


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
            if not pointers:
                new = set(_VALUE.findall(text)) - seen
                seen |= new
                todo += new
    return found
