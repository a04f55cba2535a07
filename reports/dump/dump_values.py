"""Types for the values in a wrapper, and an evaluator for its number expressions."""

import ast
import math
from collections.abc import Mapping

from msgspec import Struct

_LARGEST = 2**63


class WrapperTensor(Struct, frozen=True):
    """A tensor in a wrapper, as far as the wrapper's text shows."""

    storage: str
    """The name of the allocation; tensors that share memory have the same one."""
    dtype: str = ""
    """`torch.float32`; empty if not known."""
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    offset: int = 0
    """In elements."""
    device: str = ""
    zero: bool = False
    """Whether the wrapper fills it with zeros before use."""

    @property
    def is_known(self) -> bool:
        """Whether enough is known to make such a tensor."""
        return bool(self.dtype and self.device) and self.shape is not None and self.stride is not None

    @property
    def extent(self) -> int:
        """Return the number of elements from the start of its memory to its last element."""
        if self.shape is None or self.stride is None:
            return 0
        if 0 in self.shape:
            return self.offset
        return self.offset + 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=False))


Value = WrapperTensor | int | float | bool | list["Value"] | None
"""The value; None if nothing is known about it."""


def number(node: ast.expr, known: Mapping[str, Value]) -> int | float | bool | None:
    """Evaluate a number expression; return None for other expressions, or if a part is not known."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Name(id=name):
            resolved = known.get(name)
            if isinstance(resolved, bool | int | float):
                return resolved
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = number(operand, known)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(number(left, known), op, number(right, known))
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=args) if args:
            found = [each for arg in args if (each := number(arg, known)) is not None]
            if len(found) < len(args):
                return None
            return max(found) if name == "max" else min(found)
        case ast.Call(func=func, args=[arg]) if ast.unparse(func) in ("math.ceil", "math.floor", "int"):
            inner = number(arg, known)
            if inner is None or not math.isfinite(inner):
                return None
            return math.ceil(inner) if ast.unparse(func) == "math.ceil" else math.floor(inner)
    return None


def _combined(
    left: int | float | bool | None, op: ast.operator, right: int | float | bool | None
) -> int | float | bool | None:
    if left is None or right is None or abs(left) > _LARGEST or abs(right) > _LARGEST:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() if right:
            return left // right
        case ast.Div() if right:
            return left / right
        case ast.Mod() if right:
            return left % right
        case ast.Pow() if 0 <= right <= 8:
            return left**right
    return None


def numbers(node: ast.expr, known: Mapping[str, Value]) -> tuple[int, ...] | None:
    """Evaluate a tuple of integers, such as sizes; return None if one of them is not known."""
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    found = [number(each, known) for each in node.elts]
    if all(isinstance(n, int) for n in found):
        return tuple(each for each in found if isinstance(each, int))
    return None
