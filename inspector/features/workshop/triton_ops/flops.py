"""Count the floating-point operations of a kernel that computes element by element."""

import ast

from ctrace.inspector.features.workshop.triton_ops.model import Kernel
from ctrace.inspector.features.workshop.triton_ops.pointers import called_name

_REDUCTIONS = {"dot", "dot_scaled", "sum", "max", "min", "reduce", "associative_scan", "cumsum", "cumprod", "softmax",
               "argmax", "argmin", "sort", "histogram", "trans"}  # fmt: skip
_FREE = {"load", "where", "to", "cast", "store", "bitcast", "broadcast_to", "reshape", "view", "expand_dims"}
"""Functions that move or choose values."""


def flops_per_element(kernel: Kernel) -> int | None:
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
    if isinstance(node, ast.Compare):
        return False
    return any(_is_loaded(each, loaded) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
