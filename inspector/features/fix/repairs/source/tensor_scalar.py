"""Keep a number of a tensor in a tensor: `x * t.item()` becomes `x * t.detach()`.

Matches `.item()`, `float()` of a tensor and `int()` of one of integers as an operand of `+`, `-`, `*` or `/` beside a
tensor, directly or through one name that is used for nothing else. `.item()` cuts the gradient, so the tensor is
detached; if it may have dimensions of size one, it is reshaped, since a number has none; if it is a float that does not
come from the other operand, it takes that operand's dtype, since a number does not promote, but no fewer than 32 bits,
in which torch computes with a number. It is copied, unless an op has just made it: code that writes to it later must
change neither the number nor what a backward pass needs.

Leaves alone numbers that Python needs: sizes, indices, `range`, `int()` of anything but integers, which truncates and
raises, arithmetic between two numbers (Python rounds in float64), and values that are returned or stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.branches import bound_before
from ctrace.inspector.edits.classes import mentions
from ctrace.inspector.edits.selection import smaller_or_larger
from ctrace.inspector.edits.syntax_code import ParsedFile, assignment_of, code_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import (
    FACTS,
    REDUCTIONS,
    is_along,
    is_literal,
    is_number,
    is_pure,
    number,
    op_of,
    operand_of,
)
from ctrace.inspector.edits.syntax_names import (
    assigned,
    dotted,
    full_name,
    read,
    read_by_item,
    self_attribute,
    torch_name,
    variables,
)
from ctrace.inspector.edits.tensors_for_numbers import detached
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_SAME_DTYPE = frozenset({"max", "min", "amax", "amin", "median"})
"""Reductions whose result has the dtype of their operand."""
_NEVER_NEGATIVE = frozenset(
    ("abs", "square", "norm", "vector_norm", "std", "var", "exp", "sqrt", "sigmoid", "softmax", "relu", "softplus")
) | frozenset(("count_nonzero", "numel", "len"))
_KEEPS_SIGN = frozenset(
    ("item", "float", "max", "min", "amax", "amin", "mean", "sum", "median", "detach", "clone", "double")
)
"""Ops whose result is not negative if their operand is not."""


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the numbers of tensors at a place as tensors."""
    code = code_of(place)
    if code is None:
        return
    for node in code.head(place.line):
        tensor = scalar_of(code, node)
        if tensor is None or not isinstance(node, cst.Call) or not is_pure(code, tensor):
            continue
        name, other = _used_by(code, node)
        if other is None:
            yield from _chained(code, node, tensor)
            continue
        edits = Edits(code)
        whole = full_name(code, node.func) == "int"
        made = _as_tensor(code, edits, tensor, other, whole=whole)
        if made is None:
            continue
        edits.expression(node, made)
        shown = code.text(node)
        yield SourceRewrite(
            edits.apply(), f"Keep `{name or shown}` in a tensor instead of reading it with `{_reader(node)}`."
        )


def scalar_of(code: ParsedFile, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor that `.item()` or `float()` reads."""
    if not isinstance(node, cst.Call):
        return None
    tensor = read_by_item(node)
    if tensor is not None:
        return tensor
    if full_name(code, node.func) == "float" and len(node.args) == 1 and not node.args[0].star:
        value = node.args[0].value
        if isinstance(value, cst.Call) and op_of(code, value) in REDUCTIONS | _SAME_DTYPE | {"norm", "std", "var"}:
            return value
        return scalar_of(code, value)
    if full_name(code, node.func) == "int" and len(node.args) == 1 and not node.args[0].star:
        value = node.args[0].value
        if not _is_whole(code, value):
            return None
        return value
    return None


def _is_whole(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether a tensor certainly has integers, so that `int()` neither truncates nor raises for NaN.

    A buffer has them if the file registers its name once, with integers, and assigns it nowhere.
    """
    if isinstance(node, cst.Call):
        tensor = read_by_item(node)
        if tensor is not None:
            return _is_whole(code, tensor)
        return op_of(code, node) in {"argmax", "argmin", "count_nonzero"} and not is_along(code, node)
    name, function = self_attribute(node), code.function(node)
    owner = None
    if name and function is not None:
        owner = code.owner(function)
    # Once where the buffer is registered; `setattr(model, "n", t)` would have the name again.
    if owner is None or mentions(code, name) != 1 or any(_assigns(one, name) for one in walk(code.module)):
        return False
    made = [one for one in walk(owner) if _registers(code, one, name)]
    return len(made) == 1 and _is_integral(code, made[0])


def _assigns(node: cst.CSTNode, name: str) -> bool:
    """Whether a node gives an attribute of this name another value: `self.n = t`, `model.n.data = t`."""
    if not isinstance(node, cst.AssignTarget | cst.AnnAssign):
        return False
    target: cst.BaseExpression = node.target
    if isinstance(target, cst.Attribute) and target.attr.value == "data":
        target = target.value
    return isinstance(target, cst.Attribute) and target.attr.value == name


def _registers(code: ParsedFile, node: cst.CSTNode, name: str) -> bool:
    if not isinstance(node, cst.Call) or code.text(node.func) != "self.register_buffer" or len(node.args) < 2:
        return False
    first = node.args[0].value
    return isinstance(first, cst.SimpleString) and first.raw_value == name


def _is_integral(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether the second argument of register_buffer makes a tensor of integers, by its dtype or its literal."""
    assert isinstance(node, cst.Call)
    made = node.args[1].value
    if not isinstance(made, cst.Call):
        return False
    kinds = [code.text(arg.value) for arg in made.args if arg.keyword is not None and arg.keyword.value == "dtype"]
    if kinds:
        return kinds[0].rpartition(".")[2] in {"int64", "long", "int32", "int", "int16", "int8", "uint8"}
    literal = full_name(code, made.func) == "torch.tensor" and len(made.args) == 1 and made.args[0].value
    return isinstance(literal, cst.Integer)


def _reader(node: cst.Call) -> str:
    if isinstance(node.func, cst.Attribute):
        return ".item()"
    return f"{dotted(node.func)}()"


def _used_by(code: ParsedFile, node: cst.Call) -> tuple[str, cst.BaseExpression | None]:
    """Return the name that a number gets, if any, and what is beside it; None: it is used in another way, too.

    Where that is a name, its dtype can be asked for at the line that reads the number.
    """
    beside = _beside(code, node)
    if beside is not None:
        return "", beside
    assignment, function = assignment_of(code.parent(node)), code.function(node)
    if assignment is None:
        return "", None
    name = assignment[0]
    if function is None:
        return "", None
    uses = [one for one in variables(function) if one.value == name.value and one is not name]
    found = [_beside(code, one) for one in uses if code.function(one) is function]
    others = [one for one in found if one is not None]
    # One use that needs a number, such as an index, is enough to need it in Python.
    if not others or len(others) != len(uses):
        return "", None
    if len({code.text(one) for one in others}) == 1 and code.text(others[0]) in _known(code, node):
        return name.value, others[0]
    # Of the others, one that is no name stands for all: each may have a dtype of its own.
    unnamed = next((one for one in others if not isinstance(one, cst.Name)), None)
    return name.value, unnamed if unnamed is not None else cst.Ellipsis()


def _known(code: ParsedFile, node: cst.CSTNode) -> set[str]:
    """Return the names that are certainly bound at a node."""
    statement = code.around(node, cst.SimpleStatementLine)
    if statement is None:
        return set()
    return bound_before(code, statement)


def _beside(code: ParsedFile, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the other operand of plain arithmetic, if it may be a tensor."""
    above = code.parent(node)
    if not isinstance(above, cst.BinaryOperation):
        return None
    if not isinstance(above.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide):
        return None
    other = code.beside(node)
    if other is None or is_literal(other) or scalar_of(code, other) is not None:
        return None
    if isinstance(other, cst.Name):
        if _is_number(code, other):
            return None
        return other
    if not _makes_tensor(code, other):
        return None
    return other


def _makes_tensor(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether an expression may well return a tensor: an op, a submodule, a parameter, or arithmetic with one."""
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        return any(
            _makes_tensor(code, one) or (isinstance(one, cst.Name) and not _is_number(code, one)) for one in sides
        )
    if isinstance(node, cst.Call):
        is_function = isinstance(node.func, cst.Name) and not full_name(code, node.func).startswith("torch.")
        return op_of(code, node) not in FACTS and not is_function and not dotted(node.func).startswith("math.")
    return isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name)


def _is_number(code: ParsedFile, name: cst.Name) -> bool:
    """Whether a name is assigned a number somewhere in its function."""
    function = code.function(name)
    if function is None:
        return False
    for one in walk(function):
        if isinstance(one, cst.Assign) and any(
            isinstance(target.target, cst.Name) and target.target.value == name.value for target in one.targets
        ):
            if is_literal(one.value) or scalar_of(code, one.value) is not None:
                return True
        elif isinstance(one, cst.For) and name.value in read(one.target):
            return True
    return False


def _chained(code: ParsedFile, node: cst.Call, tensor: cst.BaseExpression) -> Iterator[SourceRewrite]:
    """Yield a number that goes through arithmetic with numbers before it meets a tensor, in float64 throughout."""
    assignment, function = assignment_of(code.parent(node)), code.function(node)
    if assignment is None or function is None:
        return
    target = assignment[0]
    chosen: list[cst.Call] = []
    if not _stays_number(code, target, function, chosen, 0):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    # In float64, as Python computes with the number.
    edits.expression(node, f"{_single(code, tensor)}.double()")
    for call in chosen:
        edits.expression(call, _selected(code, call, torch))
    summary = f"Keep `{target.value}` in a tensor of float64 instead of reading it with `{_reader(node)}`."
    yield SourceRewrite(edits.apply(), summary)


def _stays_number(
    code: ParsedFile, target: cst.Name, function: cst.FunctionDef, chosen: list[cst.Call], depth: int
) -> bool:
    """Whether all uses of a number are arithmetic with numbers, `min` or `max` of them, or arithmetic with a tensor.

    `chosen` gets the calls of `min` and `max`.
    """
    uses = [one for one in variables(function) if one.value == target.value and one is not target]
    if not uses or depth > 3 or any(code.function(one) is not function for one in uses):
        return False
    for use in uses:
        other = code.beside(use)
        if _beside(code, use) is not None and other is not None and not _is_constant(code, other):
            continue
        node: cst.CSTNode = use
        above = code.parent(node)
        while above is not None and (_is_numeric(code, above, node) or _is_choice(code, above, node)):
            if isinstance(above, cst.Call):
                chosen.append(above)
            node, above = above, code.parent(above)
        assignment = assignment_of(above)
        if assignment is None or node is use or not _stays_number(code, assignment[0], function, chosen, depth + 1):
            return False
    return True


def _is_constant(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether an operand is certainly a number: a literal, or a name in capitals that the file assigns one."""
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


def _is_numeric(code: ParsedFile, above: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node is an operand of exact arithmetic with a number."""
    if not isinstance(above, cst.BinaryOperation):
        return False
    other = code.beside(node)
    plain = isinstance(above.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide)
    # A tensor divided by zero is infinite, a number raises: the divisor must be a nonzero number, or guarded.
    divides = isinstance(above.operator, cst.Divide) and above.right is node
    return plain and other is not None and _is_constant(code, other) and (not divides or _is_positive(code, node))


def _is_positive(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether a divisor is a number that cannot be negative, with a positive one added to it, as against zero."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
        return False
    return is_number(node.right) and number(node.right) > 0 and _is_never_negative(code, node.left)


def _is_never_negative(code: ParsedFile, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Name):
        values = assigned(code, node)
        return bool(values) and all(_is_never_negative(code, each) for each in values)
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.Power) and is_number(node.right) and number(node.right) % 2 == 0
    if not isinstance(node, cst.Call):
        return False
    op = op_of(code, node) or dotted(node.func)
    if op in _NEVER_NEGATIVE:
        return True
    inner = operand_of(code, node)
    if inner is None and node.args:
        inner = node.args[0].value
    return op in _KEEPS_SIGN and inner is not None and _is_never_negative(code, inner)


def _is_choice(code: ParsedFile, above: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node is an argument of `min` or `max` beside a literal float."""
    if isinstance(above, cst.Arg):
        call = code.parent(above)
        if not isinstance(call, cst.Call) or len(call.args) != 2 or full_name(code, call.func) not in {"min", "max"}:
            return False
        other = next(arg.value for arg in call.args if arg is not above)
        return is_number(other) and isinstance(number(other), float)
    return isinstance(above, cst.Call) and isinstance(node, cst.Arg) and full_name(code, above.func) in {"min", "max"}


def _selected(code: ParsedFile, call: cst.Call, torch: str) -> str:
    """Return `min` or `max` of two numbers in tensors."""
    first, second = (code.text(arg.value) for arg in call.args)
    return smaller_or_larger(torch, full_name(code, call.func), first, second)


def _is_reduced(code: ParsedFile, tensor: cst.BaseExpression) -> bool:
    """Whether an op has just made a tensor without dimensions."""
    if not isinstance(tensor, cst.Call):
        return False
    return op_of(code, tensor) in REDUCTIONS | _SAME_DTYPE | {"norm"} and not is_along(code, tensor)


def _single(code: ParsedFile, tensor: cst.BaseExpression) -> str:
    """Return a tensor of its own, without dimensions and without a gradient."""
    is_operand = isinstance(tensor, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    text = detached(code.text(tensor), is_operand=is_operand)
    if _is_reduced(code, tensor):
        return text
    return f"{text}.clone().reshape(())"


def _as_tensor(
    code: ParsedFile, edits: Edits, tensor: cst.BaseExpression, other: cst.BaseExpression, *, whole: bool
) -> str | None:
    """Return a tensor without dimensions and without a gradient that promotes like a number; None: torch has no name.

    A `whole` one truncates as `int()` does: code outside of the file may put fractions where it reads integers.
    """
    text = _single(code, tensor)
    if whole:
        # Integers never promote a float, and beside booleans they are integers, as the number was; in half precision,
        # a cast would round them first.
        return f"{text}.long()"
    own = isinstance(tensor, cst.Call) and op_of(code, tensor) in _SAME_DTYPE and read(other) <= read(tensor)
    is_element = isinstance(tensor, cst.Subscript) and code.text(tensor.value) == code.text(other)
    # Beside a tensor with dimensions, one without promotes like a number, unless one of both is not a float.
    if (own and _is_reduced(code, tensor)) or is_element or not isinstance(other, cst.Name):
        return text
    torch = torch_name(code, edits)
    if torch is None:
        return None
    # Beside 16 bits, torch computes with a number in float32; a cast to 16 bits would round a count of 257 in bfloat16.
    return f"{text}.to({torch}.promote_types({code.text(other)}.dtype, {torch}.float32))"


REPAIR = SourceRepair("tensor_scalar", "a tensor instead of a number read from it", find)
