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
from ctrace.inspector.repairs.syntax.effects import REDUCTIONS, is_literal, is_number, is_pure, number, op_of
from ctrace.inspector.repairs.syntax.names import full_name, read, torch_name, variables
from ctrace.inspector.repairs.syntax.sharing import written

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
        if read(tensor) & written(code, node):
            continue  # the number is the one before the write, the tensor may be a view
        name, other = _used_by(code, node)
        if other is None:
            yield from _chained(code, node, tensor)
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
    uses = [one for one in variables(function) if one.value == name.value and one is not name]
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


def _chained(code: Code, node: cst.Call, tensor: cst.BaseExpression) -> Iterator[Rewrite]:
    """Yield a number that goes through arithmetic with numbers before it meets a tensor, in float64 throughout."""
    import libcst as cst

    above, function = code.parent(node), code.function(node)
    if not isinstance(above, cst.Assign) or len(above.targets) != 1 or function is None:
        return
    target = above.targets[0].target
    if not isinstance(target, cst.Name):
        return
    chosen: list[cst.Call] = []
    if not _stays_number(code, target, function, chosen, 0):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    scalar = isinstance(tensor, cst.Call) and _is_reduced(code, tensor)
    edits.expression(node, f"{_operand(code, tensor)}.detach(){'' if scalar else '.reshape(())'}.double()")
    for call in chosen:
        edits.expression(call, _selected(code, call, torch))
    summary = f"Keep `{target.value}` in a tensor of float64 instead of reading it with `{_reader(node)}`."
    yield Rewrite(edits.apply(), summary)


def _stays_number(code: Code, target: cst.Name, function: cst.FunctionDef, chosen: list[cst.Call], depth: int) -> bool:
    """Whether all uses of a number are arithmetic with numbers, `min` or `max` of them, or arithmetic with a tensor.

    `chosen` gets the calls of `min` and `max`.
    """
    import libcst as cst

    uses = [one for one in variables(function) if one.value == target.value and one is not target]
    if not uses or depth > 3 or any(code.function(one) is not function for one in uses):
        return False
    for use in uses:
        if _beside(code, use) is not None and not _is_constant(code, _other(code, use)):
            continue
        node: cst.CSTNode = use
        above = code.parent(node)
        while above is not None and (_is_numeric(code, above, node) or _is_choice(code, above, node)):
            if isinstance(above, cst.Call):
                chosen.append(above)
            node, above = above, code.parent(above)
        if not isinstance(above, cst.Assign) or len(above.targets) != 1 or node is use:
            return False
        name = above.targets[0].target
        if not isinstance(name, cst.Name) or not _stays_number(code, name, function, chosen, depth + 1):
            return False
    return True


def _other(code: Code, node: cst.CSTNode) -> cst.BaseExpression:
    import libcst as cst

    above = code.parent(node)
    assert isinstance(above, cst.BinaryOperation)
    return above.right if above.left is node else above.left


def _is_constant(code: Code, node: cst.BaseExpression) -> bool:
    """Whether an operand is certainly a number: a literal, or a name in capitals that the file assigns one."""
    import libcst as cst

    if is_number(node):
        return True
    if not isinstance(node, cst.Name) or not node.value.isupper():
        return False
    return any(
        isinstance(small, cst.Assign) and is_number(small.value) and code.text(small.targets[0].target) == node.value
        for line in code.module.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
    )


def _is_numeric(code: Code, above: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node is an operand of exact arithmetic with a number."""
    import libcst as cst

    if not isinstance(above, cst.BinaryOperation):
        return False
    plain = isinstance(above.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide)
    # A tensor divided by zero is infinite, a number raises: the divisor must be a nonzero number, or guarded.
    divides = isinstance(above.operator, cst.Divide) and above.right is node
    return plain and _is_constant(code, _other(code, node)) and (not divides or _is_positive(node))


def _is_positive(node: cst.CSTNode) -> bool:
    """Whether a divisor has a small number added to it, as against zero."""
    import libcst as cst

    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add) and is_number(node.right)


def _is_choice(code: Code, above: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node is an argument of `min` or `max` beside a literal float."""
    import libcst as cst

    if isinstance(above, cst.Arg):
        call = code.parent(above)
        if not isinstance(call, cst.Call) or len(call.args) != 2 or full_name(code, call.func) not in {"min", "max"}:
            return False
        other = next(arg.value for arg in call.args if arg is not above)
        return is_number(other) and isinstance(number(other), float)
    return isinstance(above, cst.Call) and isinstance(node, cst.Arg) and full_name(code, above.func) in {"min", "max"}


def _selected(code: Code, call: cst.Call, torch: str) -> str:
    """Return `min(a, b)` as Python computes it: b if b < a, else a; also for NaN."""
    first, second = (code.text(arg.value) for arg in call.args)
    sign = "<" if full_name(code, call.func) == "min" else ">"
    return f"{torch}.where({second} {sign} {first}, {second}, {first})"


def _operand(code: Code, tensor: cst.BaseExpression) -> str:
    import libcst as cst

    text = code.text(tensor)
    return text if isinstance(tensor, cst.Name | cst.Attribute | cst.Call | cst.Subscript) else f"({text})"


def _is_reduced(code: Code, call: cst.Call) -> bool:
    return op_of(code, call) in REDUCTIONS | _SAME_DTYPE | {"norm"} and not _along(call)


def _as_tensor(code: Code, tensor: cst.BaseExpression, other: cst.BaseExpression) -> str:
    """Return a tensor without dimensions and without a gradient that promotes like a number."""
    import libcst as cst

    text = f"{_operand(code, tensor)}.detach()"
    scalar = isinstance(tensor, cst.Call) and _is_reduced(code, tensor)
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
