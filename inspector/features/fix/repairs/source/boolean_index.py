"""Select with a mask of fixed shape instead of boolean indexing, whose result has a shape that depends on data.

Matches `y[m] = f(y[m])` and `y[m] *= 2` (the same elements stay, in place), and `x[m].sum()`, `x[m].mean()` and
`torch.masked_select(x, m).sum()`, whose sums run in a different order.

Needs a mask that certainly has the shape of the tensor: a comparison of that very tensor, or `isnan` and the like, or a
name that was just assigned one. Leaves alone functions that look at several elements (`y[m] - y[m].mean()`), maxima,
which raise when nothing is selected, and ops whose gradient may be infinite or NaN for the elements left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.selection import where, with_zeros
from ctrace.inspector.edits.syntax_code import ParsedFile, code_of, index_in, small_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import (
    REDUCTIONS,
    SHAPING,
    is_number,
    is_pure,
    is_smooth,
    op_of,
)
from ctrace.inspector.edits.syntax_names import bound, full_name, torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.knowledge.counting import words

_ELEMENTWISE_TESTS = words("isnan isinf isfinite lt le gt ge eq ne logical_not")
_OPERATORS = {
    "AddAssign": "+",
    "SubtractAssign": "-",
    "MultiplyAssign": "*",
}


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield masked forms of the boolean indexing at a place."""
    code = code_of(place)
    if code is None:
        return
    statement = code.statement(place.line)
    if statement is None:
        return
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        yield from _written(code, statement, statement.body[0])
    for node in code.head(place.line):
        if isinstance(node, cst.Call):
            yield from _reduced(code, node, statement)


def _written(code: ParsedFile, statement: cst.SimpleStatementLine, small: cst.CSTNode) -> Iterator[SourceRewrite]:
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target, value, sign = small.targets[0].target, small.value, ""
    elif isinstance(small, cst.AugAssign):
        target, value, sign = small.target, small.value, _OPERATORS.get(type(small.operator).__name__, "?")
    else:
        return
    if not isinstance(target, cst.Subscript) or not isinstance(target.value, cst.Name) or sign == "?":
        return
    mask = mask_of(code, target, statement)
    if mask is None:
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    tensor = target.value.value
    # A backward may need the chosen elements as they were, and nothing of the others, which may be NaN.
    kept = with_zeros(torch, mask, tensor)
    new = _elementwise(code, value, kept, target)
    # `y[m] = 0` has no shape that depends on data, and compiles as it is.
    if new is None or (not sign and f"{tensor}[" not in code.text(value)):
        return
    if sign and is_number(value):
        new = f"{tensor} {sign} {new}"
    elif sign:
        left = kept if sign == "*" else tensor
        new = f"{left} {sign} ({new})"
    # In place, as before: other names may hold the same tensor.
    edits.statement(statement, f"{tensor}.copy_({where(torch, mask, new, tensor)})")
    yield SourceRewrite(edits.apply(), f"Write the elements of `{tensor}` where `{mask}` with torch.where, in place.")


def mask_of(code: ParsedFile, node: cst.Subscript, statement: cst.CSTNode) -> str | None:
    """Return the mask of a boolean index that certainly has the shape of the tensor."""
    mask = index_in(node)
    if mask is None or not isinstance(node.value, cst.Name):
        return None
    return mask_text(code, node.value.value, mask, statement)


def mask_text(code: ParsedFile, tensor: str, mask: cst.BaseExpression, statement: cst.CSTNode) -> str | None:
    """Return the text of a mask, if it has the shape of a tensor by reading."""
    inner = mask
    while isinstance(inner, cst.UnaryOperation) and isinstance(inner.operator, cst.BitInvert):
        inner = inner.expression
    if isinstance(inner, cst.Name):
        value = _assigned_just_before(code, inner.value, tensor, statement)
        if value is not None and _is_mask(code, tensor, value):
            return code.text(mask)
        return None
    if not _is_mask(code, tensor, mask):
        return None
    return code.text(mask)


def _is_mask(code: ParsedFile, tensor: str, mask: cst.CSTNode) -> bool:
    if isinstance(mask, cst.UnaryOperation):
        return isinstance(mask.operator, cst.BitInvert) and _is_mask(code, tensor, mask.expression)
    if isinstance(mask, cst.BinaryOperation):
        logical = isinstance(mask.operator, cst.BitAnd | cst.BitOr)
        return logical and _is_mask(code, tensor, mask.left) and _is_mask(code, tensor, mask.right)
    if isinstance(mask, cst.Comparison) and len(mask.comparisons) == 1:
        sides = (mask.left, mask.comparisons[0].comparator)
        return any(_is_own(code, tensor, side) for side in sides) and all(
            is_number(side) or _is_own(code, tensor, side) for side in sides
        )
    if isinstance(mask, cst.Call) and op_of(code, mask) in _ELEMENTWISE_TESTS:
        first = None
        if mask.args:
            first = mask.args[0].value
        if full_name(code, mask.func).startswith("torch."):
            return first is not None and len(mask.args) == 1 and _is_own(code, tensor, first)
        return isinstance(mask.func, cst.Attribute) and not mask.args and _is_own(code, tensor, mask.func.value)
    return False


def _is_own(code: ParsedFile, tensor: str, node: cst.CSTNode) -> bool:
    """Whether an expression is the tensor, or its absolute values."""
    if isinstance(node, cst.Name):
        return node.value == tensor
    return (
        isinstance(node, cst.Call)
        and op_of(code, node) == "abs"
        and code.text(node)
        in {
            f"{tensor}.abs()",
            f"torch.abs({tensor})",
        }
    )


def _assigned_just_before(code: ParsedFile, name: str, tensor: str, statement: cst.CSTNode) -> cst.CSTNode | None:
    """Return the value that a block assigns to a name above a statement, if neither it nor the tensor changed since."""
    for line in reversed(code.above(statement)):
        small = small_of(line)
        if small is None:
            return None
        if isinstance(small, cst.Assign) and bound(small) == {name}:
            return small.value
        # A bare call may write to the tensor or to the mask in place.
        if bound(line) & {name, tensor} or not isinstance(small, cst.Assign) or not is_pure(code, small.value):
            return None
    return None


def _elementwise(code: ParsedFile, value: cst.BaseExpression, kept: str, target: cst.Subscript) -> str | None:
    """Return a function of the chosen elements as the same function of all; None: it combines several elements.

    `kept` is a copy of the tensor, for operations whose backward needs what they were given.
    """
    if not is_pure(code, value) or not is_smooth(code, value):
        return None
    index = "".join(code.text(part) for part in target.slice)
    saves = any(map(_may_save, walk(value)))
    inside: set[int] = set()
    text = code.text(value)
    for one in walk(value):
        if id(one) in inside:
            continue
        if isinstance(one, cst.Subscript):
            if not isinstance(one.value, cst.Name) or "".join(code.text(part) for part in one.slice) != index:
                return None
            inside |= {id(below) for below in walk(one)}
            text = text.replace(code.text(one), kept if saves else one.value.value)
        elif isinstance(one, cst.Call):
            if op_of(code, one) in REDUCTIONS | SHAPING | {"softmax", "log_softmax", "linear", "matmul", "mm", "bmm"}:
                return None
            # The name of what is called is no operand, such as `torch` in `torch.exp(y[m])`.
            inside |= {id(below) for below in walk(one.func) if isinstance(below, cst.Name)}
        elif (
            isinstance(one, cst.Name) and id(one) not in inside and not isinstance(code.parent(one), cst.Attribute)
        ) or isinstance(one, cst.MatrixMultiply):
            return None
    return text


def _may_save(node: cst.CSTNode) -> bool:
    """Whether autograd may save an input for the backward: not of a sum, nor of a product with a number."""
    match node:
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract()):
            return False
        case cst.BinaryOperation(operator=cst.Multiply(), left=left, right=right):
            return not (is_number(left) or is_number(right))
        case cst.BinaryOperation(operator=cst.Divide(), right=right):
            return not is_number(right)
    return isinstance(node, cst.BinaryOperation | cst.Call)


def _reduced(code: ParsedFile, node: cst.Call, statement: cst.CSTNode) -> Iterator[SourceRewrite]:
    """Yield a sum or mean of chosen elements as one of all, with zeros for the others."""
    if not isinstance(node.func, cst.Attribute) or node.args or node.func.attr.value not in {"sum", "mean"}:
        return
    chosen = node.func.value
    tensor, mask = "", None
    if isinstance(chosen, cst.Subscript) and isinstance(chosen.value, cst.Name):
        tensor, mask = chosen.value.value, mask_of(code, chosen, statement)
    elif (
        isinstance(chosen, cst.Call) and full_name(code, chosen.func) == "torch.masked_select" and len(chosen.args) == 2
    ):
        first, second = (arg.value for arg in chosen.args)
        if isinstance(first, cst.Name):
            tensor, mask = first.value, mask_text(code, first.value, second, statement)
    if not tensor or mask is None:
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    kept = with_zeros(torch, mask, tensor)
    new = f"{kept}.sum()"
    if node.func.attr.value == "mean":
        # torch's mean adds and divides in float32 at least: in half precision, a sum or a count may be infinite.
        wide = f"{torch}.promote_types({tensor}.dtype, {torch}.float32)"
        if mask.isidentifier():
            count = f"{mask}.sum()"
        else:
            count = f"({mask}).sum()"
        # Without any chosen element, 0 / 0 is NaN, as the mean of none is.
        new = f"({kept}.sum(dtype={wide}) / {count}).to({tensor}.dtype)"
    edits.expression(node, new)
    summary = f"Sum `{tensor}` where `{mask}` with zeros elsewhere, instead of the chosen elements."
    yield SourceRewrite(edits.apply(), summary, changes_arithmetic=True)


REPAIR = SourceRepair("boolean_index", "a mask of fixed shape instead of boolean indexing", find)
