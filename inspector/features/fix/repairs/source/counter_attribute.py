"""Count in a tensor instead of in an integer attribute, on which torch.compile specializes.

Matches `self.n = 0` in `__init__` and `self.n += 1` in a method. The counter becomes a buffer that is not saved;
arithmetic with numbers reads it in float64, as Python computes, and `min(1.0, ...)` becomes torch.where. Code
outside the class then reads a tensor, which the author has to allow.

Leaves alone counters that Python needs as numbers: tests, `%`, indices, `range`, text, or passed to functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.classes import (
    assigned_value,
    attribute_uses,
    initializer,
    is_plain_module,
    mentions,
)
from ctrace.inspector.edits.selection import smaller_or_larger
from ctrace.inspector.edits.syntax_code import ParsedFile, statement_in_function, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_number, number
from ctrace.inspector.edits.syntax_names import self_attribute, torch_name
from ctrace.inspector.edits.tensors_for_numbers import registered
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the counters at a place, or named by the finding, as buffers."""
    found = statement_in_function(place)
    if found is None:
        return
    code, statement, function = found
    owner = code.owner(function)
    if owner is None or not is_plain_module(owner):
        return
    here = {self_attribute(node) for node in walk(statement)} - {""}
    for name in sorted(here | {one.removeprefix("self.") for one in place.names}):
        yield from _counter(code, owner, name)


def _counter(code: ParsedFile, owner: cst.ClassDef, name: str) -> Iterator[SourceRewrite]:
    init = initializer(owner)
    if init is None:
        return
    first = assigned_value(code, init, name)
    # `getattr(self, "n")` may need the number where no attribute shows it.
    if first is None or not isinstance(first[1], cst.Integer) or mentions(code, name):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    uses = [use for use in attribute_uses(owner, name) if code.function(use) is not init or not _is_set(code, use)]
    steps = [use for use in uses if _is_count(code, use, name)]
    others = [use for use in uses if not any(use is step for step in steps)]
    limits = {id(use): _limit(code, use) for use in others}
    read = [use for use in others if limits[id(use)] is None]
    if torch is None or not steps or not all(_computes(code, use) for use in read):
        return
    for use in read:
        # A division of an integer tensor gives float32, where Python has float64.
        edits.expression(use, f"self.{name}.double()" if _is_float(code, use) else f"self.{name}")
    _clamp(code, edits, {id(limit[0]): limit for limit in limits.values() if limit is not None}, name, torch)
    edits.statement(first[0], registered(name, torch, code.text(first[1])))
    yield SourceRewrite(
        edits.apply(),
        f"Count `self.{name}` in a tensor.",
        question=f"May `self.{name}` be a tensor instead of an int?",
    )


def _is_set(code: ParsedFile, use: cst.Attribute) -> bool:
    return isinstance(code.parent(use), cst.AssignTarget | cst.AnnAssign)


def _is_count(code: ParsedFile, use: cst.Attribute, name: str) -> bool:
    """Whether an attribute is part of `self.n += 1` or of `self.n = self.n + 1`."""
    small = code.around(use, cst.Assign) or code.around(use, cst.AugAssign)
    text = ""
    if small is not None:
        text = code.text(small).replace(" ", "").rstrip(";")
    return re.fullmatch(rf"self\.{name}(\+=|=self\.{name}\+)\d+", text) is not None


def _computes(code: ParsedFile, use: cst.Attribute) -> bool:
    """Whether an attribute is an operand of plain arithmetic, in which a tensor of one number is as good."""
    node = code.parent(use)
    plain = cst.Add | cst.Subtract | cst.Multiply | cst.Divide
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, plain) and not _is_tested(code, node)


def _is_tested(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether Python needs the value of an expression: in a test, a call, an index, a text, or an attribute."""
    current = code.parent(node)
    while isinstance(current, cst.BinaryOperation | cst.UnaryOperation | cst.Expr):
        current = code.parent(current)
    return not isinstance(current, cst.Assign | cst.Return)


def _is_float(code: ParsedFile, use: cst.Attribute) -> bool:
    """Whether Python computes a float from an attribute and a number, which a tensor would round to float32."""
    node = code.parent(use)
    assert isinstance(node, cst.BinaryOperation)
    other = code.beside(use)
    divides = isinstance(node.operator, cst.Divide)
    return other is not None and is_number(other) and (divides or isinstance(number(other), float))


def _limit(code: ParsedFile, use: cst.Attribute) -> tuple[cst.Call, str] | None:
    """Return the `min(1.0, ...)` around arithmetic with a counter, and the name of its function.

    The limit is a float, and the arithmetic divides: else the result could be an int.
    """
    node = code.parent(use)
    if not isinstance(node, cst.BinaryOperation):
        return None
    call = code.call_with(node)
    if call is None or not isinstance(call.func, cst.Name) or len(call.args) != 2:
        return None
    if call.func.value not in {"min", "max"} or not isinstance(node.operator, cst.Divide):
        return None
    other = next(arg.value for arg in call.args if arg.value is not node)
    if not is_number(other) or not isinstance(number(other), float):
        return None
    return call, call.func.value


def _clamp(code: ParsedFile, edits: Edits, found: dict[int, tuple[cst.Call, str]], name: str, torch: str) -> None:
    for call, limit in found.values():
        inner = next(arg.value for arg in call.args if isinstance(arg.value, cst.BinaryOperation))
        text = code.text(inner).replace(f"self.{name}", f"self.{name}.double()")
        first, second = (text if arg.value is inner else code.text(arg.value) for arg in call.args)
        edits.expression(call, smaller_or_larger(torch, limit, first, second))


REPAIR = SourceRepair("counter_attribute", "a counter in a tensor", find)
