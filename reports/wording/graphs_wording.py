"""Describe parts of graphs: types, calls, inputs and outputs."""

import re
from collections.abc import Mapping, Sequence

from ctrace.inspector.facts.graph_facts import SymbolMeant
from ctrace.inspector.findings.graphs.fx import (
    At,
    FxNode,
    FxNodeKind,
    TensorType,
    number,
    op_name,
    overload,
    symbols_in,
)
from ctrace.inspector.findings.graphs.parse import pieces
from ctrace.reports import format as fmt

_SIGNS = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "add": "+", "sub": "-", "mul": "*",
    "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&",
    "or_": "|", "xor": "^", "matmul": "@", "iadd": "+=", "iand": "&=", "ifloordiv": "//=", "ilshift": "<<=",
    "imod": "%=", "imul": "*=", "imatmul": "@=", "ior": "|=", "ipow": "**=", "irshift": ">>=", "isub": "-=",
    "itruediv": "/=", "ixor": "^=",
}  # fmt: skip
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}
# How torch writes its descriptors (2.13, _functorch/_aot_autograd/descriptors.py).
_OUTPUT = re.compile(r"PlainAOTOutput\(idx=(\d+)\)")
_GRADIENT = re.compile(r"GradAOTOutput\(grad_of=\w+AOTInput\(idx=(\d+)\)\)")
_CHANGED = re.compile(r"InputMutationAOTOutput\(mutated_input=\w+AOTInput\(idx=(\d+)\)\)")
_TANGENT = re.compile(r"TangentAOTInput\(output=\w+AOTOutput\(idx=(\d+)\)\)")
_INPUT = re.compile(r"PlainAOTInput\(idx=(\d+)\)")


def type_text(type_: TensorType, values: Mapping[str, str] | None = None) -> str:
    """Write `f32[2, 16]`, with the class of a subclass around it.

    With the values of symbols in a call, a computed size becomes its value in that call, `20 (s53)` for
    `2*(((s53 - 1)//4)) + 2`.
    """
    sizes = type_.sizes if values is None else [_size_text(size, values) for size in type_.sizes]
    text = fmt.one_line(f"{type_.dtype}[{', '.join(sizes)}]")
    if type_.wrapper:
        return f"{fmt.plain(type_.wrapper)}({text})"
    return text


def _size_text(size: str, values: Mapping[str, str]) -> str:
    # A number or a symbol, such as `8` or `s53`, is shorter than its value behind it.
    if size.isalnum():
        return size
    value = number(size, values)
    if value is None:
        return size
    return f"{value} ({', '.join(symbols_in(size))})"


def result_text(node: FxNode, device: str = "", *, strides: bool = False) -> str:
    """Write a node's result: type, strides unless contiguous, device unless it is `device`."""
    if node.symbol:
        return fmt.one_line(f"number {node.symbol}")
    if node.type is None:
        return ""
    text = type_text(node.type)
    if node.type.strides is not None and (strides or not is_dense(node.type)):
        text += f" stride {fmt.one_line(_in_brackets(node.type.strides))}"
    if node.type.device in ("", device):
        return text
    return f"{text} {fmt.plain(node.type.device)}"


def _in_brackets(items: Sequence[str]) -> str:
    return f"({', '.join(items)})"


def is_dense(type_: TensorType) -> bool:
    """Whether strides are contiguous; if some are symbols, whether they are at least in descending order."""
    step: int | None = 1
    for size, stride in zip(reversed(type_.sizes), reversed(type_.strides or ()), strict=False):
        # With a symbol among them, a stride cannot be compared with the product of the sizes.
        length, actual = number(size, {}), number(stride, {})
        if length != 1 and (step is not None and actual is not None) and step != actual:
            return False
        step = None if step is None or length is None else step * length
    return True


def op_text(node: FxNode) -> str:
    """Write an op with its overload, without torch's own prefix."""
    return fmt.one_line(f"{op_name(node)}{fmt.framed('.', overload(node))}")


def call_text(node: FxNode) -> str:
    """Write a call as Python: `q @ k`, `x.view(-1)`, `var_mean[0]`, `aten.mm(a, b)`."""
    if node.kind is FxNodeKind.GET_ATTR:
        return fmt.one_line(f"self.{node.target}")
    args = pieces(node.args)
    if node.kind is FxNodeKind.CALL_METHOD and args:
        return fmt.one_line(f"{args[0]}.{node.target}({', '.join(args[1:])})")
    if node.target.startswith("operator.") and (text := _operator(node.target[9:], args)):
        return fmt.one_line(text)
    if node.kind is FxNodeKind.CALL_MODULE:
        return fmt.one_line(f"self.{node.target}({node.args})")
    return f"{op_text(node)}({fmt.one_line(node.args)})"


def _operator(name: str, args: Sequence[str]) -> str:
    if name == "getitem" and len(args) > 1:
        return f"{args[0]}[{', '.join(args[1:])}]"
    if name == "setitem" and len(args) > 2:
        return f"{args[0]}[{', '.join(args[1:-1])}] = {args[-1]}"
    if name in _SIGNS and len(args) == 2:
        return f"{args[0]} {_SIGNS[name]} {args[1]}"
    if name in _UNARY and len(args) == 1:
        return f"{_UNARY[name]}{args[0]}"
    return ""


def counts_text(counts: Sequence[tuple[str, int]], most: int = 0) -> str:
    """Write `mul 4, add 2, exp`, up to `most` ops; 0 stands for all."""
    texts = (fmt.one_line(f"{fmt.short_op(op)}{fmt.repeated(times, ' ')}") for op, times in counts)
    return fmt.listed(texts, most or len(counts))


def depends_text(symbols: Sequence[str], meant: Mapping[str, SymbolMeant]) -> str:
    """Write ` where x.size(0) is 8`; empty without symbols."""
    known = [meant.get(name, SymbolMeant(name, "not known")) for name in symbols]
    values = (f"{fmt.one_line(each.name, 60)} is {fmt.one_line(each.value, 20)}" for each in known)
    return fmt.framed(" where ", fmt.listed(values, 3))


def place_text(at: At, cwd: str, limit: int = 0) -> str:
    """Write a source line's place and code; shorten a place longer than `limit` to the file name."""
    place = fmt.place(at.file, at.line, cwd)
    short = f"{fmt.file_name(at.file)}:{at.line}" if limit and len(place) > limit else place
    return f"{short}  {fmt.one_line(at.code)}"


def output_words(described: str, names: Sequence[str]) -> str:
    """Put torch's description of an output in words; `names` are the user's names of the inputs, in order."""
    if match := _OUTPUT.fullmatch(described):
        return f"output {match[1]}"
    # There are several classes of these, which differ in what AOTAutograd checks.
    if described.startswith("SavedForBackwards"):
        return "saved for the backward"
    if match := _GRADIENT.fullmatch(described):
        return f"gradient of {_name(match[1], names)}"
    if match := _CHANGED.fullmatch(described):
        return f"new value of {_name(match[1], names)}"
    if described == "None":
        return ""
    return fmt.one_line(described)


def input_words(described: str, names: Sequence[str]) -> str:
    """Put torch's description of an input in words."""
    if match := _INPUT.fullmatch(described):
        return _name(match[1], names)
    if match := _TANGENT.fullmatch(described):
        return f"gradient of output {match[1]}"
    return fmt.one_line(described)


def _name(index: str, names: Sequence[str]) -> str:
    # Python refuses numbers of thousands of digits, which a damaged log may have.
    at = int(index[:9])
    if at < len(names):
        return fmt.one_line(names[at], 60)
    return f"input {index}"
