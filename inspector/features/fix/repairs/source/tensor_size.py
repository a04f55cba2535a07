"""Take a size from a shape, not from a tensor made from the shape.

Matches `torch.prod(torch.tensor(x.shape)).item()`, `int(torch.tensor(x.shape).prod())`, sums and elements of the same,
and `torch.tensor(n).item()` with a size. Shapes are known to Python already.

Leaves alone tensors made of anything else, explicit dtypes (they may round), and means and roots.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from ctrace.inspector.edits.syntax_code import ParsedFile, code_of, index_in
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import full_name, module_name, read_by_item
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_SHAPE = m.Attribute(attr=m.Name("shape")) | m.Call(func=m.Attribute(attr=m.Name("size")), args=[])
_SIZE = (
    m.Call(func=m.Attribute(attr=m.Name("size")), args=[m.AtLeastN(n=1)])
    | m.Call(func=m.Attribute(attr=m.Name("numel") | m.Name("dim")))
    | m.Call(func=m.Name("len"))
)


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the sizes at a place without tensors."""
    code = code_of(place)
    if code is None:
        return
    for node in code.head(place.line):
        if not isinstance(node, cst.Call):
            continue
        read = _read(code, node)
        if read is None:
            continue
        edits = Edits(code)
        is_whole = full_name(code, node.func) == "int"
        new = _size(code, edits, read, is_whole=is_whole)
        if new is not None:
            edits.expression(node, new)
            yield SourceRewrite(edits.apply(), f"Compute `{new}` from the shape, without a tensor.")
            return


def _read(code: ParsedFile, node: cst.Call) -> cst.BaseExpression | None:
    """Return the tensor that `.item()` or `int()` reads."""
    if full_name(code, node.func) == "int" and len(node.args) == 1:
        inner = node.args[0].value
        read = None
        if isinstance(inner, cst.Call):
            read = _read(code, inner)
        if read is not None:
            return read
        return inner
    return read_by_item(node)


def _size(code: ParsedFile, edits: Edits, node: cst.BaseExpression, *, is_whole: bool) -> str | None:
    """Return a number for a tensor of sizes that was reduced to one element; `is_whole`: as `int()` returns it."""
    index = index_in(node)
    if isinstance(node, cst.Subscript) and index is not None:
        shape = _shape(code, node.value)
        # `[0]` and `[-1]` pick one size; a slice or a tensor would leave a tensor.
        if shape and isinstance(index, cst.Integer | cst.UnaryOperation):
            return f"{shape}[{code.text(index)}]"
        return None
    if not isinstance(node, cst.Call):
        return None
    single = _made_of(code, node)
    if single is not None and _is_size(single):
        return code.text(single)
    whole = full_name(code, node.func)
    if whole in {"torch.prod", "torch.sum"} and len(node.args) == 1:
        return _reduced(code, edits, whole.rpartition(".")[2], node.args[0].value, is_whole=is_whole)
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in {"prod", "sum"} and not node.args:
        return _reduced(code, edits, node.func.attr.value, node.func.value, is_whole=is_whole)
    return None


def _reduced(code: ParsedFile, edits: Edits, op: str, tensor: cst.BaseExpression, *, is_whole: bool) -> str | None:
    shape = _shape(code, tensor)
    if not shape:
        return None
    made = _made_of(code, tensor)
    # A tensor of no sizes is one of floats: `x.shape[2:]` is empty where x has two dimensions.
    may_be_empty = isinstance(made, cst.Subscript) and not is_whole
    if op == "sum":
        if may_be_empty:
            return f"(sum({shape}) if {shape} else 0.0)"
        return f"sum({shape})"
    math = module_name(code, edits, "math")
    if math is None:
        return None
    if may_be_empty:
        return f"({math}.prod({shape}) if {shape} else 1.0)"
    return f"{math}.prod({shape})"


def _made_of(code: ParsedFile, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the argument of `torch.tensor`, if it is the only one."""
    if isinstance(node, cst.Call) and full_name(code, node.func) in {"torch.tensor", "torch.as_tensor"}:
        if len(node.args) == 1 and not node.args[0].star:
            return node.args[0].value
        return None
    return None


def _shape(code: ParsedFile, node: cst.BaseExpression) -> str | None:
    """Return the shape that a tensor was made of."""
    made = _made_of(code, node)
    if isinstance(made, cst.Subscript) and any(isinstance(one.slice, cst.Slice) for one in made.slice):
        if not _is_shape(made.value):
            return None
        return code.text(made)
    if made is not None and _is_shape(made):
        return code.text(made)
    return None


def _is_shape(node: cst.BaseExpression) -> bool:
    return m.matches(node, _SHAPE)


def _is_size(node: cst.BaseExpression) -> bool:
    """Whether an expression is one size of a tensor."""
    if isinstance(node, cst.Subscript):
        return _is_shape(node.value) and not any(isinstance(one.slice, cst.Slice) for one in node.slice)
    return m.matches(node, _SIZE)


REPAIR = SourceRepair("tensor_size", "a size from the shape, not from a tensor", find)
