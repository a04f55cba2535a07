"""Compute a side of a branch so that it stays finite where it is not selected.

`torch.where` computes both sides, and a backward pass multiplies the gradient of the side that is not selected by zero:
zero times infinity is NaN. An op whose derivative may overflow, or be infinite, gets ones there instead of its operand:
`h ** 4` becomes `torch.where(c, h, 1) ** 4`. Where the side is selected, nothing changes.

What a name holds is taken to be finite. Where it may be infinite, each factor gets ones, too, not only what overflows:
the derivative of `h * w` by `w` is `h`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from ctrace.inspector.edits.selection import with_ones
from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_effects import (
    CASTS,
    FACTS,
    REDUCED,
    SHAPING,
    SMOOTH,
    fills_number,
    is_along,
    is_number,
    is_pure,
    is_safe_divisor,
    number,
    op_of,
    operand_of,
)
from ctrace.inspector.edits.syntax_names import full_name
from ctrace.inspector.knowledge.counting import words
from ctrace.inspector.knowledge.torch_ops import STEEP

_TAME = words("relu abs neg tanh sigmoid softmax clamp clip sign floor ceil round trunc detach clone") | SHAPING | CASTS
"""Ops whose result is no larger than their operand, or than one."""


def is_maskable(code: ParsedFile, side: cst.BaseExpression) -> bool:
    """Whether a side only computes, by ops whose gradients are finite, or are with ones for operands."""
    if not is_pure(code, side):
        return False
    for one in walk(side):
        if isinstance(one, cst.Call) and op_of(code, one) not in SMOOTH | SHAPING | CASTS | FACTS | STEEP:
            is_reduction = op_of(code, one) in REDUCED and not is_along(code, one)
            if not is_reduction and not fills_number(code, one):
                return False
        if isinstance(one, cst.FloorDivide | cst.Modulo | cst.LeftShift | cst.RightShift):
            return False
        if isinstance(one, cst.BinaryOperation):
            if isinstance(one.operator, cst.Divide) and not is_safe_divisor(code, one.right):
                return False
            if isinstance(one.operator, cst.Power) and not is_number(one.right):
                return False
    return True


def needs_mask(code: ParsedFile, side: cst.BaseExpression, *, factors: bool) -> bool:
    """Whether an op of a side may leave NaN in gradients where the side is not selected."""
    return any(any(_operands(code, one, factors=factors)) for one in walk(side))


def masked(
    code: ParsedFile, side: cst.BaseExpression, condition: str, torch: str, *, holds: bool, factors: bool
) -> str:
    """Return a side's text with ones for operands that need them; it is selected where a condition holds, or not.

    With `factors`, all factors get ones, so that names may hold infinite values.
    """

    def ones(operand: cst.BaseExpression) -> cst.BaseExpression:
        return cst.parse_expression(with_ones(torch, condition, code.module.code_for_node(operand), holds=holds))

    class Masking(cst.CSTTransformer):
        def on_leave(self, original_node: Any, updated_node: Any) -> Any:
            # Chosen by the original node, which the file knows; the new one has the ones of inner ops in it.
            for part in _operands(code, original_node, factors=factors):
                updated_node = _with_part(updated_node, part, ones)
            return updated_node

    return code.module.code_for_node(side.visit(Masking()))  # type: ignore[arg-type]


def _operands(code: ParsedFile, node: cst.CSTNode, *, factors: bool) -> Iterator[str]:
    """Yield which parts of an op need ones: `left`, `right`, `func` for the operand of a method, or `args`."""
    if isinstance(node, cst.BinaryOperation):
        yield from _of_arithmetic(code, node, factors=factors)
    elif isinstance(node, cst.Call) and op_of(code, node) in STEEP:
        is_function = full_name(code, node.func).startswith("torch.")
        # `torch.exp(h)` has its operand among the arguments, `h.exp()` before the dot.
        yield "args" if is_function else "func"


def _of_arithmetic(code: ParsedFile, node: cst.BinaryOperation, *, factors: bool) -> Iterator[str]:
    def needs_ones(operand: cst.BaseExpression) -> bool:
        if not factors:
            return _may_overflow(code, operand)
        is_product = isinstance(operand, cst.BinaryOperation) and isinstance(
            operand.operator, cst.Multiply | cst.Divide | cst.Power
        )
        return not is_product  # the factors of a product get ones themselves

    if isinstance(node.operator, cst.Power) and not (is_number(node.right) and number(node.right) == 1):
        yield "left"
    elif isinstance(node.operator, cst.Divide) and not is_number(node.right):
        if needs_ones(node.left):
            yield "left"
        yield "right"
    elif isinstance(node.operator, cst.Multiply) and not is_number(node.left) and not is_number(node.right):
        for part, operand in (("left", node.left), ("right", node.right)):
            if needs_ones(operand):
                yield part


def _may_overflow(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether an operand may be infinite though what it is computed from is finite."""
    if isinstance(node, cst.UnaryOperation):
        return _may_overflow(code, node.expression)
    if isinstance(node, cst.Call):
        operand = operand_of(code, node)
        bounded = op_of(code, node) in words("tanh sigmoid softmax sign")
        return not bounded and (op_of(code, node) not in _TAME or operand is None or _may_overflow(code, operand))
    return not (is_number(node) or isinstance(node, cst.Name | cst.Attribute | cst.Subscript))


def _with_part(node: Any, part: str, change: Any) -> Any:
    if part in ("left", "right"):
        return node.with_changes(**{part: change(getattr(node, part))})
    if part == "func":
        return node.with_changes(func=node.func.with_changes(value=change(node.func.value)))
    first, *others = node.args
    return node.with_changes(args=[first.with_changes(value=change(first.value)), *others])
