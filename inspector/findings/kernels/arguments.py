"""Parse the arguments of calls in emitted code: buffers, views of buffers, and numbers."""

import ast
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ctrace.inspector.facts.events.kernels import Layout, PartGenerated
from ctrace.inspector.facts.kernels import Argument
from ctrace.inspector.findings.graphs.text.integers import calculated
from ctrace.inspector.findings.kernels.emitted_code import Call, dotted

_VIEW = "reinterpret_tensor"
_DEPTH = 50
"""The deepest expression to parse; expressions of sizes are flat."""


class Names:
    """Resolves the names of buffers and sizes in a graph part's code."""

    def __init__(self, part: PartGenerated, assigned: Mapping[str, ast.expr]) -> None:
        self._buffers = {each.name: each for each in part.buffers}
        self._symbols = part.symbols
        self._assigned = assigned

    def arguments(self, call: Call) -> tuple[Argument, ...]:
        """Return the arguments of a call in order; a list of tensors counts as its tensors."""
        return tuple(
            replace(argument, keyword=keyword)
            for keyword, expression in call.arguments
            for argument in self._flattened(expression)
        )

    def _flattened(self, node: ast.expr) -> Iterator[Argument]:
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        if any(self._tensor(item) for item in items):
            for item in items:
                yield from self._flattened(item)
            return
        tensor = self._tensor(node)
        yield tensor if tensor is not None else self._value(node)

    def _tensor(self, node: ast.expr) -> Argument | None:
        match node:
            case ast.Name(id=name) if name in self._buffers:
                return _argument(self._buffers[name])
            case ast.Call(func=function, args=[ast.Name(id=name), shape, stride, offset]) if (
                name in self._buffers and dotted(function) == _VIEW
            ):
                return self._view(name, self._sizes(shape), self._sizes(stride), self.number(offset))
        return None

    def _view(
        self, name: str, shape: tuple[int, ...] | None, stride: tuple[int, ...] | None, offset: int | None
    ) -> Argument | None:
        if shape is None or stride is None or offset is None:
            return None
        whole = self._buffers[name]
        return _argument(replace(whole, shape=shape, stride=stride, offset=offset))

    def _value(self, node: ast.expr) -> Argument:
        text = _text(node)
        number = self.number(node)
        return Argument(name=text, tensor=False, value=text if number is None else str(number))

    def _sizes(self, node: ast.expr) -> tuple[int, ...] | None:
        items = [self.number(item) for item in node.elts] if isinstance(node, ast.Tuple) else [None]
        known = tuple(item for item in items if item is not None)
        return known if len(known) == len(items) else None

    def number(self, node: ast.expr, depth: int = 0) -> int | None:
        """Evaluate a size with the values of symbols for which the graph was compiled; return None if not known."""
        if depth > _DEPTH:
            return None
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Name(id=name) if name in self._symbols:
                return self._symbols[name]
            case ast.Name(id=name) if name in self._assigned:
                return self.number(self._assigned[name], depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return calculated(0, ast.Sub(), self.number(operand, depth + 1))
            case ast.BinOp(left=left, op=operator, right=right):
                return calculated(self.number(left, depth + 1), operator, self.number(right, depth + 1))
        return None


def _text(node: ast.expr) -> str:
    """Return the source of an expression; shorten an expression that is too deep for `ast.unparse`."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


def _argument(layout: Layout) -> Argument:
    return Argument(
        name=layout.name,
        tensor=True,
        dtype=layout.dtype,
        shape=layout.shape,
        stride=layout.stride,
        offset=layout.offset,
        device=layout.device,
    )
