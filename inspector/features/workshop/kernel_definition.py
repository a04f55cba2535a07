"""A region in PyTorch operators: as Python that computes it, and as data that a matcher finds it by."""

import ast
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ctrace.inspector.features.workshop.kernel_region import Region, RegionStep
from ctrace.inspector.features.workshop.size_expressions import SEE_DUMP, RefusalError, UnknownExpressionError, renamed
from ctrace.inspector.findings.graphs.fx import At

_MODULES = frozenset(("torch", "math", "operator"))
_PRIMS = {
    "prims.convert_element_type.default": "aten.to.dtype",
    "prims.prepare_softmax_online.default": "prepare_softmax_online",
    "prims.fma.default": "multiply_add",
    "prims.rev.default": "aten.flip.default",
    "aten.copy.default": "copied",
    "prims.iota.default": "iota",
    "prims._low_memory_max_pool_with_offsets.default": "max_pool_with_offsets",
    "prims._low_memory_max_pool_offsets_to_indices.default": "offsets_to_indices",
}
"""Operators without a derivative or a CPU kernel, and what the definition calls instead."""
FUNCTIONS = {
    "prepare_softmax_online": '''\
def prepare_softmax_online(x, dim):
    """Return the maximum along a dimension, and the sum of exponentials relative to it."""
    largest = aten.amax.default(x, [dim], True)
    return largest, aten.sum.dim_IntList(aten.exp.default(aten.sub.Tensor(x, largest)), [dim], True)
''',
    "multiply_add": '''\
def multiply_add(x, y, z):
    """Return x * y + z."""
    return aten.add.Tensor(aten.mul.Tensor(x, y), z)
''',
    "iota": '''\
def iota(length, *, start, step, dtype, device, requires_grad=False):
    """Return `length` integers from `start` on."""
    return torch.arange(start, start + length * step, step, dtype=dtype, device=device)
''',
    "max_pool_with_offsets": '''\
def max_pool_with_offsets(x, window, stride, padding, dilation, ceil_mode):
    """Return the maximum of each window, and its place in the window, counted row by row."""
    largest, indices = aten.max_pool2d_with_indices.default(x, window, stride, padding, dilation, ceil_mode)
    rows = torch.arange(largest.shape[-2], device=x.device)[:, None] * stride[0] - padding[0]
    columns = torch.arange(largest.shape[-1], device=x.device) * stride[1] - padding[1]
    row = (indices // x.shape[-1] - rows) // dilation[0]
    column = (indices % x.shape[-1] - columns) // dilation[1]
    return largest, (row * window[1] + column).to(torch.int8)
''',
    "copied": '''\
def copied(x, y, non_blocking=False):
    """Return the values of y with the sizes and the dtype of x."""
    return y.expand(x.shape).to(x.dtype)
''',
    "offsets_to_indices": '''\
def offsets_to_indices(offsets, window, size, stride, padding, dilation):
    """Return the places in the whole input that places in windows mean."""
    rows = torch.arange(offsets.shape[-2], device=offsets.device)[:, None] * stride[0] - padding[0]
    columns = torch.arange(offsets.shape[-1], device=offsets.device) * stride[1] - padding[1]
    row = offsets.to(torch.int64) // window[1] * dilation[0] + rows
    column = offsets.to(torch.int64) % window[1] * dilation[1] + columns
    return row * size[1] + column
''',
}
"""The functions behind `_PRIMS`, in terms of ATen."""
_FREE = frozenset(
    ("permute", "view", "reshape", "_unsafe_view", "expand", "unsqueeze", "squeeze", "slice", "select", "clone", "cat",
     "to", "convert_element_type", "embedding", "index", "gather", "full", "iota", "alias", "t", "transpose", "detach",
     "as_strided", "full_like", "constant_pad_nd", "arange", "_to_copy", "empty", "split", "copy", "scalar_tensor",
     "slice_scatter", "select_scatter", "scatter", "index_select", "repeat", "flip", "diagonal", "unbind", "lift")
)  # fmt: skip
"""Operators that move values and compute nothing."""
_REDUCTIONS = frozenset(
    ("sum", "mean", "amax", "amin", "prod", "any", "var_mean", "var", "prepare_softmax_online", "argmax", "argmin",
     "max", "min", "all", "std")
)  # fmt: skip


class Line(Struct, frozen=True):
    """One statement of the definition."""

    text: str
    at: At | None


class Definition(Struct, frozen=True):
    """A region in PyTorch operators."""

    lines: tuple[Line, ...]
    functions: tuple[str, ...]
    """The names of `FUNCTIONS` that the lines call."""
    pattern: tuple[str, ...]
    """Of each step, `Step(...)` with its op and arguments, for the matcher."""
    flops: tuple[str, ...]
    """Numbers of operations, as products of sizes, one for each step that computes something."""


def definition_of(region: Region, symbols: Mapping[str, str], device: str) -> Definition:
    """Write a region in PyTorch operators.

    Args:
        symbols: the names of the graph's symbols in the package.
        device: an expression for the device of the inputs.

    Raises:
        RefusalError: an argument has a form that ctrace does not know.
    """
    functions = dict.fromkeys(_PRIMS[each.target] for each in region.steps if each.target in _PRIMS)
    return Definition(
        lines=tuple(Line(_statement(each, region, symbols, device), each.at) for each in region.steps),
        functions=tuple(each for each in functions if each in FUNCTIONS),
        pattern=tuple(_pattern(each, region, symbols) for each in region.steps),
        flops=tuple(_flops(region, symbols)),
    )


def _call(step: RegionStep) -> ast.Call:
    try:
        call = ast.parse(f"f({step.args})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RefusalError(f"the arguments of {step.target} cannot be parsed", SEE_DUMP) from None
    assert isinstance(call, ast.Call)
    return call


def _statement(step: RegionStep, region: Region, symbols: Mapping[str, str], device: str) -> str:
    call = _Arguments(step, region, symbols, device, is_pattern=False).visit(_call(step))
    if step.target == "operator.getitem":
        return f"{step.name} = {ast.unparse(call.args[0])}[{ast.unparse(call.args[1])}]"
    if step.target.startswith("operator."):
        return f"{step.name} = {step.target}({', '.join(map(ast.unparse, call.args))})"
    target = _PRIMS.get(step.target, step.target)
    if target.startswith("prims."):
        raise RefusalError(f"it contains {target}, for which ctrace knows no definition in ATen operators", SEE_DUMP)
    name = target if target.startswith("aten.") or target in FUNCTIONS else f"torch.ops.{target}"
    call.func = ast.parse(name, mode="eval").body
    return f"{step.name} = {ast.unparse(call)}"


def _pattern(step: RegionStep, region: Region, symbols: Mapping[str, str]) -> str:
    call = _Arguments(step, region, symbols, "ANY", is_pattern=True).visit(_call(step))
    args = "".join(f"{ast.unparse(each)}, " for each in call.args)
    kwargs = ", ".join(f"{each.arg!r}: {ast.unparse(each.value)}" for each in call.keywords)
    return f"Step({step.name!r}, {step.target!r}, ({args}), {{{kwargs}}})"


class _Arguments(ast.NodeTransformer):
    """Replaces the names of nodes: tensors by their names in the package, numbers by expressions of symbols."""

    def __init__(
        self, step: RegionStep, region: Region, symbols: Mapping[str, str], device: str, *, is_pattern: bool
    ) -> None:
        self._step = step
        self._region = region
        self._symbols = symbols
        self._device = device
        self._is_pattern = is_pattern

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "device":
            return ast.parse(self._device, mode="eval").body
        if isinstance(node.func, ast.Name) and node.func.id == "f":
            node.args = [self.visit(each) for each in node.args]
            node.keywords = [ast.keyword(each.arg, self.visit(each.value)) for each in node.keywords]
            return node
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node if ast.unparse(node).split(".")[0] in _MODULES else self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._region.names:
            name = self._region.names[node.id]
            return ast.parse(f"V({name!r})" if self._is_pattern else name, mode="eval").body
        if node.id in self._region.sizes:
            try:
                text = renamed(self._region.sizes[node.id], self._symbols)
            except UnknownExpressionError:
                raise RefusalError(f"the size {node.id} is in a notation that ctrace does not know", SEE_DUMP) from None
            return ast.parse(f"S({text!r})" if self._is_pattern else text, mode="eval").body
        if node.id in ("inf", "nan"):
            return ast.parse(f'float("{node.id}")', mode="eval").body
        raise RefusalError(f"{self._step.target} uses {node.id}, which the graph does not define", SEE_DUMP)


def _flops(region: Region, symbols: Mapping[str, str]) -> Iterable[str]:
    """Yield one operation per element that a step computes; of a reduction, per element that it reads."""
    shapes = {each.node: each.shape for each in region.inputs}
    names = {new: old for old, new in region.names.items()}
    for step in region.steps:
        shapes[names.get(step.name, step.name)] = step.shape
        op = step.target.split(".")[1] if "." in step.target else step.target
        if op in _FREE or step.target.startswith("operator."):
            continue
        shape: tuple[str, ...] = step.shape
        if op in _REDUCTIONS:
            first = _call(step).args[0]
            shape = shapes.get(first.id, step.shape) if isinstance(first, ast.Name) else step.shape
        try:
            yield (
                " * ".join(
                    f"({renamed(each, symbols)})" if not each.isalnum() else renamed(each, symbols) for each in shape
                )
                or "1"
            )
        except UnknownExpressionError:
            continue
