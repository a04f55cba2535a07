"""Compute with Python's math instead of NumPy where only sizes and numbers are involved.

Matches np.sqrt, np.ceil, np.floor, np.abs, np.max, np.min and `int(np.prod(...))` with operands made of shapes,
lengths, literals and math.

Leaves alone arrays and anything that may be one (names and attributes that are not assigned a number), results that
are returned or stored as they are (np.float64 is not float), differences, which may be negative (np.sqrt returns NaN
where math raises), np.log and np.exp for the same reason, and a product without `int()`: NumPy's is 1.0 for no sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.numpy_functions import in_python
from ctrace.inspector.edits.syntax_code import ParsedFile, code_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import assigned, dotted, full_name, module_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.knowledge.counting import words

_MATCHED = words("sqrt ceil floor abs absolute max min prod")
"""Those of the functions whose result Python also returns for every number that may be there, as the module says."""


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the NumPy calls at a place as math."""
    code = code_of(place)
    if code is None:
        return
    edits, changed = Edits(code), []
    math = module_name(code, edits, "math")
    taken: set[int] = set()
    for node in code.head(place.line):
        if not isinstance(node, cst.Call) or id(node) in taken or math is None:
            continue
        package, _, name = full_name(code, node.func).rpartition(".")
        if package != "numpy" or name not in _MATCHED or len(node.args) != 1 or node.args[0].keyword:
            continue
        if not _is_plain(code, node):
            continue
        if any(isinstance(one, cst.Subtract | cst.Minus) for one in walk(node.args[0])):
            continue
        argument, is_made_int = node.args[0].value, _is_made_int(code, node)
        if name == "prod" and (not is_made_int or isinstance(argument, cst.List | cst.Tuple)):
            continue  # NumPy's is 1.0 for no sizes, and may overflow otherwise
        if not _is_number(code, argument, sequence=name in {"prod", "max", "min"}):
            continue
        taken |= {id(below) for below in walk(node)}
        edits.expression(node, in_python(name, [code.text(argument)], math=math, is_made_int=is_made_int))
        changed.append(dotted(node.func))
    if changed:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(changed))
        yield SourceRewrite(edits.apply(), f"Use Python's math instead of {names}.")


def _is_made_int(code: ParsedFile, node: cst.Call) -> bool:
    """Whether a value goes into `int()`."""
    call = code.call_with(node)
    return call is not None and full_name(code, call.func) == "int"


def _is_plain(code: ParsedFile, node: cst.Call) -> bool:
    """Whether the value goes into arithmetic or into a call that converts it to a number."""
    call = code.call_with(node)
    if call is not None:
        name = full_name(code, call.func)
        return name in {"int", "float", "range"} or name.rpartition(".")[2] in {"view", "reshape", "new_zeros"}
    return code.beside(node) is not None


def _is_number(code: ParsedFile, node: cst.BaseExpression, *, sequence: bool = False, depth: int = 0) -> bool:
    """Whether an expression is certainly a Python number, or a sequence of them."""
    if isinstance(node, cst.Attribute) and node.attr.value == "shape":
        return sequence
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "size":
        # `x.size()` is a sequence, and `x.size(0)` a number.
        return sequence != bool(node.args)
    if isinstance(node, cst.Subscript):
        sliced = any(isinstance(one.slice, cst.Slice) for one in node.slice)
        return sliced == sequence and _is_number(code, node.value, sequence=True, depth=depth)
    if isinstance(node, cst.List | cst.Tuple):
        return (
            sequence
            and len(node.elements) > 0
            and all(_is_number(code, one.value, depth=depth) for one in node.elements)
        )
    if isinstance(node, cst.Name):
        values = assigned(code, node)
        # To some depth only: in a loop, `a = b` and `b = a` lead to each other.
        return len(values) == 1 and depth < 3 and _is_number(code, values[0], sequence=sequence, depth=depth + 1)
    return not sequence and _is_single(code, node, depth)


def _is_single(code: ParsedFile, node: cst.BaseExpression, depth: int) -> bool:
    if isinstance(node, cst.Integer | cst.Float):
        return True
    if isinstance(node, cst.BinaryOperation):
        return _is_number(code, node.left, depth=depth) and _is_number(code, node.right, depth=depth)
    if isinstance(node, cst.Call):
        name = full_name(code, node.func)
        if name in {"len", "int", "float"} or name.startswith("math."):
            return True
        return name.rpartition(".")[2] in {"dim", "numel", "size"}
    return False


REPAIR = SourceRepair("numpy_math", "Python's math instead of NumPy", find)
