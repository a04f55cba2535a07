"""A condition on a tensor's value as a tensor of one boolean."""

from __future__ import annotations

import math

import libcst as cst
import libcst.matchers as m

from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_effects import (
    TESTS,
    is_along,
    is_literal,
    is_number,
    is_pure,
    number,
    op_of,
    operand_of,
)
from ctrace.inspector.edits.syntax_names import assigned
from ctrace.inspector.knowledge.counting import words

_SCALARS = words(
    """
    sum mean any all norm prod max min amax amin median std var count_nonzero item
    """
)
_ITEM = frozenset({"item"})
_ITEM_CALL = m.Call(func=m.Attribute(attr=m.Name("item")))
_ALL = frozenset({"any", "all"})
_OF_NUMBERS = frozenset({"abs", "min", "max", "round", "sum", "pow"})
"""Functions of Python that return a number for numbers, and a tensor for tensors."""
_DEEPEST = 3
"""Names that are read through to what they hold."""
_RESHAPED = ".reshape(())"
_LARGEST = 127
"""The largest number of int8: torch wraps a larger one to compare it."""
_BITS = 8
"""The digits of a number in bfloat16, in which torch compares such a tensor with it."""


def as_tensor(
    code: ParsedFile, test: cst.BaseExpression, drawing: frozenset[str] = frozenset(), *, torch: str = ""
) -> str | None:
    """Return a tensor of one boolean that is true when the test is; None: this is not a plain test of tensors.

    The result computes each part of the test once, in order, so it may also draw random numbers by the ops in
    `drawing`, where the caller evaluates it once. With `torch`, its name in the file, a comparison of
    parameters is also right where callers pass numbers.

    `bool()` of a tensor raises unless it has one element, as `reshape(())` does.
    """
    if not is_pure(code, test, extra=_ITEM | drawing):
        return None
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = as_tensor(code, test.expression, drawing, torch=torch)
        if inner == f"{code.text(test.expression)} != 0":
            return f"{code.text(test.expression)} == 0"
        # exact for booleans, which `as_tensor` returns
        if not inner:
            return None
        return f"~({inner})"
    if isinstance(test, cst.BooleanOperation):
        # `&` computes both sides, where Python may stop after the first.
        left, right = _total(code, test.left), _total(code, test.right)
        sign = "&" if isinstance(test.operator, cst.And) else "|"
        if not left or not right:
            return None
        bare = [side.removesuffix(_RESHAPED).strip() for side in (left, right)]
        # In parentheses, since `&` binds more than `<`.
        both = f" {sign} ".join(side if side.startswith("(") and side.endswith(")") else f"({side})" for side in bare)
        if bare == [left, right]:
            return both
        return f"({both}){_RESHAPED}"
    return _simple(code, test, torch)


def _simple(code: ParsedFile, test: cst.BaseExpression, torch: str = "") -> str | None:
    """Return one comparison or one tensor's truth as a tensor."""
    if isinstance(test, cst.Comparison):
        return _comparison(code, test, torch)
    if isinstance(test, cst.Call):
        if isinstance(test.func, cst.Name) and test.func.value == "bool" and len(test.args) == 1:
            return as_tensor(code, test.args[0].value)
        if _is_item(test) and isinstance(test.func, cst.Attribute):
            return as_tensor(code, test.func.value)
        op = op_of(code, test)
        # `any` of bytes is a byte, whose `~` is 254 for 1, so bytes are compared with zero instead.
        if op in _ALL and not is_along(code, test) and _is_boolean(code, test):
            return code.text(test)
        if op in _SCALARS and not is_along(code, test):
            return f"{code.text(test)} != 0"
    if is_literal(test) or isinstance(test, cst.BooleanOperation):
        return None
    if not _plain(test):
        return None
    text = code.text(test)
    # A Python number has no `reshape`, and its comparison is a bool.
    if torch and _may_be_number(code, test):
        text = f"{torch}.as_tensor({text})"
    return f"({text} != 0){_RESHAPED}"


def _comparison(code: ParsedFile, test: cst.Comparison, torch: str) -> str | None:
    if len(test.comparisons) != 1:
        return None
    target = test.comparisons[0]
    if isinstance(target.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn | cst.Is):
        return None
    left, right = test.left, target.comparator
    if any(is_literal(side) and not is_number(side) for side in (left, right)):
        return None
    items = [one for one in (left, right) if _is_item(one)]
    whole = code.text(test)
    for item in items:
        other = right if item is left else left
        # `x.item() > 0.1` compares in float64; as a tensor, 0.1 is rounded to the dtype of `x`.
        if not is_number(other) or not _is_exact(number(other)):
            return None
        assert isinstance(item, cst.Call)
        assert isinstance(item.func, cst.Attribute)
        whole = whole.replace(code.text(item), code.text(item.func.value), 1)
    if any(_is_item(one) for side in (left, right) for one in walk(side) if one is not side):
        return None
    sides = [one.func.value if _is_item(one) else one for one in (left, right)]  # type: ignore[attr-defined]
    if all(is_number(side) or _is_scalar(code, side) for side in sides):
        return _bare(test, whole)
    made = ""
    if not items and all(_may_be_number(code, side) for side in sides):
        made = torch
    if made:
        return f"{made}.as_tensor({_bare(test, whole)}){_RESHAPED}"
    return f"({_bare(test, whole)}){_RESHAPED}"


def _may_be_number(code: ParsedFile, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether an expression may be a number of Python: a literal, a parameter, or what no op of torch returns.

    `self.gate(x)` may call a lambda that returns 1.0, and `self.gate` may be set to it.
    """
    if isinstance(node, cst.BinaryOperation):
        return _may_be_number(code, node.left, depth) and _may_be_number(code, node.right, depth)
    if isinstance(node, cst.UnaryOperation):
        return _may_be_number(code, node.expression, depth)
    if isinstance(node, cst.Subscript):
        return _may_be_number(code, node.value, depth)
    if isinstance(node, cst.Call):
        is_builtin = isinstance(node.func, cst.Name) and node.func.value in _OF_NUMBERS
        return not op_of(code, node) and (not is_builtin or all(_may_be_number(code, arg.value) for arg in node.args))
    if isinstance(node, cst.Name) and depth < _DEEPEST:
        values = assigned(code, node)
        return not values or any(_may_be_number(code, each, depth + 1) for each in values)
    return isinstance(node, cst.Name | cst.Attribute) or is_number(node)


def _bare(test: cst.BaseExpression, text: str) -> str:
    """Return the text of an expression without the parentheses around it."""
    for _ in test.lpar:
        text = text.strip().removeprefix("(").removesuffix(")").strip()
    return text


def _total(code: ParsedFile, test: cst.BaseExpression) -> str | None:
    """Return one side of `and` or `or`, if evaluating it never raises: in the old code, the other side may skip it."""
    partial = (cst.Subscript, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power)
    for one in walk(test):
        if isinstance(one, partial):
            return None
        if isinstance(one, cst.Call) and op_of(code, one) not in {"sum", "mean", "any", "all", "abs", "isnan", "isinf"}:
            return None
    if not isinstance(test, cst.Comparison | cst.Call):
        return None
    return _simple(code, test)


def _is_boolean(code: ParsedFile, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether an expression is certainly of booleans; `any` and `all` of bytes are bytes, whose `~` is no negation."""
    if isinstance(node, cst.Comparison):
        return True
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and _is_boolean(code, node.expression, depth)
    if isinstance(node, cst.BinaryOperation):
        is_mask = isinstance(node.operator, cst.BitAnd | cst.BitOr | cst.BitXor)
        return is_mask and all(_is_boolean(code, side, depth) for side in (node.left, node.right))
    if isinstance(node, cst.Name):
        values = assigned(code, node)
        return depth < _DEEPEST and bool(values) and all(_is_boolean(code, one, depth + 1) for one in values)
    if not isinstance(node, cst.Call):
        return False
    op = op_of(code, node)
    if op not in _ALL:
        return op in TESTS or op == "bool"
    operand = operand_of(code, node)
    return operand is not None and _is_boolean(code, operand, depth)


def _is_item(node: cst.CSTNode) -> bool:
    return m.matches(node, _ITEM_CALL)


def _is_exact(value: float) -> bool:
    """Whether a number is the same in every dtype of torch that holds numbers of its size, with a sign."""
    digits, _ = math.frexp(value)
    is_small = abs(value) <= _LARGEST and float(value * 4).is_integer()
    return is_small and (digits * 2**_BITS).is_integer()


def _plain(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name | cst.Attribute | cst.Subscript | cst.Call)


def _is_scalar(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether an expression is certainly a tensor without dimensions: a reduction of all elements."""
    if isinstance(node, cst.Call) and op_of(code, node) in _SCALARS:
        return not is_along(code, node)
    return isinstance(node, cst.Call) and op_of(code, node) == "abs" and _is_scalar(code, node.func)


def operand_text(code: ParsedFile, node: cst.BaseExpression) -> str:
    """Return the text of a condition as an operand of `and`: in parentheses if it binds less, and has none."""
    text = code.text(node)
    if isinstance(node, cst.BooleanOperation | cst.IfExp | cst.NamedExpr | cst.Lambda) and not node.lpar:
        return f"({text})"
    return text
