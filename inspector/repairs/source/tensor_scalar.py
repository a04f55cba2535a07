"""Keep a number of a tensor in a tensor: `x * t.item()` becomes `x * t.detach()`.

Matches `.item()` and `float()` of a tensor as an operand of `+`, `-`, `*` or `/` beside a tensor, directly or through
one name that is used for nothing else. `.item()` cuts the gradient, so the tensor is detached; if it may have
dimensions of size one, it is reshaped, since a number has none; if it does not come from the other operand, it takes
that operand's dtype, since a number does not promote.

Leaves alone numbers that Python needs: sizes, indices, `range`, `int()`, which truncates and raises, arithmetic between
two numbers (Python rounds in float64), and values that are returned or stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ctrace.inspector.repairs.model import Place, Rewrite, SourceRepair
from ctrace.inspector.repairs.syntax.code import code_of, walk
from ctrace.inspector.repairs.syntax.edits import Edits
from ctrace.inspector.repairs.syntax.effects import REDUCTIONS, is_literal, is_pure, op_of
from ctrace.inspector.repairs.syntax.names import full_name, read

if TYPE_CHECKING:
    import libcst as cst

    from ctrace.inspector.repairs.syntax.code import Code

_SAME_DTYPE = frozenset({"max", "min", "amax", "amin", "median"})
"""Reductions whose result has the dtype of their operand."""


def find(place: Place) -> Iterator[Rewrite]:
    """Yield the numbers of tensors at a place as tensors."""
    import libcst as cst

    code = code_of(place)
    if code is None:
        return
    for node in code.head(place.line):
        tensor = scalar_of(code, node)
        if tensor is None or not isinstance(node, cst.Call) or not is_pure(code, tensor):
            continue
        name, other = _used_by(code, node)
        if other is None:
            continue
        edits = Edits(code)
        edits.expression(node, _as_tensor(code, tensor, other))
        shown = code.text(node)
        yield Rewrite(
            edits.apply(), f"Keep `{name or shown}` in a tensor instead of reading it with `{_reader(node)}`."
        )


def scalar_of(code: Code, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor that `.item()` or `float()` reads."""
    import libcst as cst

    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item" and not node.args:
        return node.func.value
    if full_name(code, node.func) == "float" and len(node.args) == 1 and not node.args[0].star:
        value = node.args[0].value
        if isinstance(value, cst.Call) and op_of(code, value) in REDUCTIONS | _SAME_DTYPE | {"norm", "std", "var"}:
            return value
        return scalar_of(code, value)
    return None


def _reader(node: cst.Call) -> str:
    import libcst as cst

    return ".item()" if isinstance(node.func, cst.Attribute) else "float()"


def _used_by(code: Code, node: cst.Call) -> tuple[str, cst.BaseExpression | None]:
    """Return the name that a number gets, if any, and a tensor beside it; None: it is used in another way, too."""
    import libcst as cst

    above = code.parent(node)
    beside = _beside(code, node)
    if beside is not None:
        return "", beside
    if (
        not isinstance(above, cst.Assign)
        or len(above.targets) != 1
        or not isinstance(above.targets[0].target, cst.Name)
    ):
        return "", None
    name, function = above.targets[0].target, code.function(node)
    if function is None:
        return "", None
    uses = [one for one in walk(function) if isinstance(one, cst.Name) and one.value == name.value and one is not name]
    found = [_beside(code, one) for one in uses if code.function(one) is function]
    if not found or len(found) != len(uses) or any(one is None for one in found):
        return "", None
    texts = {code.text(one) for one in found if one is not None}
    return (name.value, found[0]) if len(texts) == 1 else ("", None)


def _beside(code: Code, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the other operand of plain arithmetic, if it may be a tensor."""
    import libcst as cst

    above = code.parent(node)
    if not isinstance(above, cst.BinaryOperation):
        return None
    if not isinstance(above.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide):
        return None
    other = above.right if above.left is node else above.left
    if is_literal(other) or scalar_of(code, other) is not None or not isinstance(other, cst.Name):
        return None
    return None if _is_number(code, other) else other


def _is_number(code: Code, name: cst.Name) -> bool:
    """Whether a name is assigned a number somewhere in its function."""
    import libcst as cst

    function = code.function(name)
    for one in walk(function) if function is not None else ():
        if isinstance(one, cst.Assign) and any(
            isinstance(target.target, cst.Name) and target.target.value == name.value for target in one.targets
        ):
            if is_literal(one.value) or scalar_of(code, one.value) is not None:
                return True
        elif isinstance(one, cst.For) and name.value in read(one.target):
            return True
    return False


def _as_tensor(code: Code, tensor: cst.BaseExpression, other: cst.BaseExpression) -> str:
    """Return a tensor without dimensions and without a gradient that promotes like a number."""
    import libcst as cst

    text = code.text(tensor)
    if not isinstance(tensor, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        text = f"({text})"
    text += ".detach()"
    reduced = isinstance(tensor, cst.Call) and op_of(code, tensor) in REDUCTIONS | _SAME_DTYPE | {"norm"}
    scalar = reduced and isinstance(tensor, cst.Call) and not _along(tensor)
    if not scalar:
        text += ".reshape(())"
    own = isinstance(tensor, cst.Call) and op_of(code, tensor) in _SAME_DTYPE and read(other) <= read(tensor)
    return text if own and scalar else f"{text}.to({code.text(other)}.dtype)"


def _along(call: cst.Call) -> bool:
    import libcst as cst

    method = isinstance(call.func, cst.Attribute) and not isinstance(call.func.value, cst.Name)
    named = isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name)
    operands = 0 if method or (named and not call.args) else 1
    return len(call.args) > operands


REPAIR = SourceRepair("tensor_scalar", "a tensor instead of a number read from it", find)
