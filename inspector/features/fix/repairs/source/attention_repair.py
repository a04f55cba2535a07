"""Call scaled_dot_product_attention instead of spelling attention out.

Matches `softmax(q @ k.transpose(-2, -1) * scale + mask, dim=-1) @ v` in one expression, or over consecutive assignments
whose names are read once: the product, a scale by `*` or `/`, one added mask, the softmax, the product with v.
The sums run in a different order, so rounding differs.

Leaves alone weights that are used elsewhere (returned, printed), dropout, masked_fill (a fully masked row is
NaN in one form and zero in the other), a softmax with a dtype, and other dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from msgspec import Struct

from ctrace.inspector.edits.syntax_code import (
    ParsedFile,
    assignment_of,
    index_of,
    small_of,
    statement_in_function,
    walk,
)
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_number
from ctrace.inspector.edits.syntax_names import full_name, module_name, variables
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite


class _Scores(Struct, frozen=True):
    """The parts of attention's scores."""

    query: str
    key: str
    scale: str = "1.0"
    mask: str = ""


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the attention around a place as one call."""
    found = statement_in_function(place)
    if found is None:
        return
    code, _, function = found
    for node in walk(function):
        product = _product(code, node)
        if product is None or code.function(node) is not function:
            continue
        used: list[cst.SimpleStatementLine] = []
        weights = _unnamed(code, product[0], used)
        scores = _softmax(code, weights)
        parts = None
        if scores is not None:
            parts = _scores(code, scores, used)
        # The finding may be at any line of the attention, such as that of the softmax.
        lines = {line for one in (*used, node) for line in range(code.lines(one)[0], code.lines(one)[1] + 1)}
        if parts is None or place.line not in lines:
            continue
        yield from _rewrite(code, node, parts, code.text(product[1]), used)
        return


def _rewrite(
    code: ParsedFile, node: cst.CSTNode, parts: _Scores, value: str, used: list[cst.SimpleStatementLine]
) -> Iterator[SourceRewrite]:
    edits = Edits(code)
    functional = module_name(code, edits, "torch.nn.functional")
    if functional is None:
        return
    mask = ""
    if parts.mask:
        mask = f", attn_mask={parts.mask}"
    call = f"{functional}.scaled_dot_product_attention({parts.query}, {parts.key}, {value}{mask}, scale={parts.scale})"
    edits.expression(node, call)
    for line in used:
        edits.remove(line)
    yield SourceRewrite(
        edits.apply(), "Call scaled_dot_product_attention instead of spelling it out.", changes_arithmetic=True
    )


def _product(code: ParsedFile, node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the operands of a matrix product."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        return node.left, node.right
    if (
        isinstance(node, cst.Call)
        and len(node.args) == 2
        and full_name(code, node.func) in {"torch.matmul", "torch.bmm"}
    ):
        return node.args[0].value, node.args[1].value
    return None


def _unnamed(code: ParsedFile, node: cst.BaseExpression, used: list[cst.SimpleStatementLine]) -> cst.BaseExpression:
    """Return the value assigned to a name, if nothing else reads it; the statement is then not needed."""
    here = code.around(node, cst.SimpleStatementLine)
    block = []
    if here is not None:
        block = code.block(here)
    if not isinstance(node, cst.Name) or here is None or not block:
        return node
    place = index_of(block, here)
    stores = [index for index, line in enumerate(block) if _assigned(line, node.value) is not None]
    last = max((index for index in stores if index < place), default=None)
    if last is None:
        return node
    # In `w = w @ v`, the statement itself ends the life of the old value.
    if place in stores:
        end = place
    else:
        end = min((index for index in stores if index > place), default=len(block) - 1)
    # Read twice, e.g. also returned, the weights have to exist, which the fused kernel never writes.
    reads = sum(_reads(line, node.value) for line in block[last + 1 : end + 1])
    if reads != 1 or _outside(code, node.value, block):
        return node
    line, value = block[last], _assigned(block[last], node.value)
    assert isinstance(line, cst.SimpleStatementLine)
    assert value is not None
    used.append(line)
    return value


def _assigned(line: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """Return the value of a statement that is one assignment to a name."""
    assignment = assignment_of(small_of(line))
    if assignment is None or assignment[0].value != name:
        return None
    return assignment[1]


def _reads(line: cst.CSTNode, name: str) -> int:
    """Count how often a statement reads a name."""

    count = sum(one.value == name for one in variables(line))
    return count - (_assigned(line, name) is not None)


def _outside(code: ParsedFile, name: str, block: list[cst.BaseStatement]) -> bool:
    """Whether a function uses a name outside of a block, as a loop or a nested function may."""

    function = code.function(block[0])
    inside = sum(one.value == name for line in block for one in variables(line))
    return function is None or inside != sum(one.value == name for one in variables(function))


def _softmax(code: ParsedFile, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the operand of a softmax over the last dimension."""
    if not isinstance(node, cst.Call):
        return None
    texts = [code.text(arg).strip().rstrip(",").replace(" ", "") for arg in node.args]
    if full_name(code, node.func) in {"torch.softmax", "torch.nn.functional.softmax"}:
        if len(texts) == 2 and texts[1] in {"-1", "dim=-1"}:
            return node.args[0].value
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "softmax" and texts in (["-1"], ["dim=-1"]):
        if full_name(code, node.func).startswith("torch."):
            return None
        return node.func.value
    return None


def _scores(code: ParsedFile, node: cst.BaseExpression, used: list[cst.SimpleStatementLine]) -> _Scores | None:
    """Return the parts of scores: a scaled product, with at most one mask added."""
    node = _unnamed(code, node, used)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        parts = _scaled(code, node.left, used)
        if parts is not None and isinstance(node.right, cst.Name | cst.Attribute):
            return _Scores(parts.query, parts.key, parts.scale, code.text(node.right))
        return None
    return _scaled(code, node, used)


def _scaled(code: ParsedFile, node: cst.BaseExpression, used: list[cst.SimpleStatementLine]) -> _Scores | None:
    node = _unnamed(code, node, used)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply | cst.Divide):
        inner = _keys(code, _unnamed(code, node.left, used))
        if inner is None or not _is_scale(code, node.right):
            return None
        scale = code.text(node.right)
        if isinstance(node.operator, cst.Divide):
            if _is_atom(node.right):
                scale = f"1 / {scale}"
            else:
                scale = f"1 / ({scale})"
        return _Scores(*inner, scale=scale)
    inner = _keys(code, node)
    if inner is None:
        return None
    return _Scores(*inner)


def _is_atom(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Integer | cst.Float)


def _is_scale(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether a factor is certainly a number: a literal, math, or an attribute with the name of a scale."""
    if is_number(node):
        return True
    if isinstance(node, cst.Call):
        return full_name(code, node.func) == "math.sqrt"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
        return is_number(node.right)
    return isinstance(node, cst.Attribute | cst.Name) and "scal" in code.text(node).lower()


def _keys(code: ParsedFile, node: cst.BaseExpression) -> tuple[str, str] | None:
    """Return the query and the key of `q @ k.transpose(-2, -1)`."""
    product = _product(code, node)
    if product is None:
        return None
    query, key = product
    if isinstance(key, cst.Attribute) and key.attr.value == "mT":
        return code.text(query), code.text(key.value)
    if not isinstance(key, cst.Call) or not isinstance(key.func, cst.Attribute) or key.func.attr.value != "transpose":
        return None
    dims = sorted(code.text(arg.value) for arg in key.args)
    # Sorted as text, where "-1" comes first: the order of the two does not matter to a transpose.
    if dims != ["-1", "-2"]:
        return None
    return (code.text(query), code.text(key.func.value))


REPAIR = SourceRepair("attention", "scaled_dot_product_attention instead of its parts", find)
