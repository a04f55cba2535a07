"""Choose with torch.cond instead of branching on a tensor's value.

Matches the same branches as torch.where does, also where the sides call layers: only the side that is
chosen runs. A side that is an existing tensor is cloned, since torch.cond returns no input.

Leaves alone sides that are not tensors or may differ in shape or dtype, a side that is an existing tensor where
the result escapes as it is, modules other than plain layers of torch.nn that `__init__` makes, functions that may
write, print or raise, random numbers, and divisions that Python may refuse.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.branches import PureBranch, branch_at
from ctrace.inspector.edits.classes import made_in_init
from ctrace.inspector.edits.conditions import as_tensor
from ctrace.inspector.edits.masking import is_maskable, needs_mask
from ctrace.inspector.edits.shared_names import returned_as_is
from ctrace.inspector.edits.syntax_code import ParsedFile, code_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import (
    is_literal,
    is_pure,
    is_safe_divisor,
    may_let_write,
    op_of,
    shape_of,
)
from ctrace.inspector.edits.syntax_names import full_name, read, torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.knowledge.counting import words

_MODULES = words(
    "Linear Identity ReLU GELU SiLU Tanh Sigmoid Conv1d Conv2d Conv3d LayerNorm RMSNorm Softmax LeakyReLU ELU"
)

_COMPILES = (
    "May eager calls compile, too? torch.cond compiles its sides in eager as well: the first call of a process takes a "
    "second or more, and one with inputs of another size a part of that."
)
"""No time of the proof shows it: that is the fastest of several calls (measured with 2.13)."""


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the branch at a place as torch.cond."""
    code = code_of(place)
    if code is None:
        return
    statement = code.statement(place.line)
    if statement is None:
        return
    branch = branch_at(code, statement)
    if branch is not None and returned_as_is(code, branch) == set():
        yield from _branch(code, branch)


def _branch(code: ParsedFile, branch: PureBranch) -> Iterator[SourceRewrite]:
    condition = as_tensor(code, branch.test, torch=torch_name(code, Edits(code)) or "")
    yes = [side.yes for side in branch.sides]
    no = [side.no for side in branch.sides]
    if condition is None or not all(_choosable(code, *pair) for pair in zip(yes, no, strict=True)):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    names = {side.target for side in branch.sides}
    if len(names) > 1 and any(
        read(one) & names - {side.target} for side in branch.sides for one in (side.yes, side.no)
    ):
        return
    chosen = f"{torch}.cond({condition}, lambda: {_values(code, yes)}, lambda: {_values(code, no)})"
    targets = ", ".join(side.target for side in branch.sides if side.target)
    edits.statement(branch.replaced, f"{targets} = {chosen}" if targets else f"return {chosen}")
    for one in branch.removed:
        edits.remove(one)
    shown = code.text(branch.test)
    summary = f"Replace the branch on `{shown}` by torch.cond."
    yield SourceRewrite(edits.apply(), summary, needs_inputs=(shown,), costs=_COMPILES)


def _choosable(code: ParsedFile, yes: cst.BaseExpression, no: cst.BaseExpression) -> bool:
    """Whether both sides compute a new tensor of the same shape and dtype, and do nothing else."""
    if is_literal(yes) or is_literal(no) or shape_of(code, yes) != shape_of(code, no):
        return False
    # Where both sides are cheap, torch.where does the same without compiling them in eager calls.
    if all(is_maskable(code, side) and not needs_mask(code, side, factors=False) for side in (yes, no)) and not _worth(
        code, yes, no
    ):
        return False
    return all(_is_quiet(code, side) for side in (yes, no))


def _worth(code: ParsedFile, yes: cst.BaseExpression, no: cst.BaseExpression) -> bool:
    """Whether a side computes so much that running only one side saves time."""
    heavy = {"linear", "matmul", "mm", "bmm", "conv1d", "conv2d", "einsum"}
    nodes = [one for side in (yes, no) for one in walk(side)]
    return any(
        isinstance(one, cst.MatrixMultiply) or (isinstance(one, cst.Call) and op_of(code, one) in heavy)
        for one in nodes
    )


def _is_quiet(code: ParsedFile, side: cst.BaseExpression) -> bool:
    """Whether an expression only calls ops and modules that are known to do nothing else.

    torch.cond traces both sides: a side that raises for the current Python numbers must not be traced.
    """

    return not any(_is_loud(code, one) for one in walk(side))


def _is_loud(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether a node may do more than compute a value, or may raise."""
    if isinstance(node, cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda | cst.BaseComp | cst.FormattedString):
        return True
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide | cst.FloorDivide | cst.Modulo):
        return not is_safe_divisor(code, node.right)
    if isinstance(node, cst.Call):
        known = is_pure(code, node.with_changes(args=[])) or _is_module(code, node)
        return not known or full_name(code, node.func).startswith("math.")
    return isinstance(node, cst.Arg) and may_let_write(node)


def _is_module(code: ParsedFile, call: cst.Call) -> bool:
    """Whether a call is one of a submodule whose forward only computes, by the class that `__init__` makes it of."""
    made = made_in_init(code, call)
    if not isinstance(made, cst.Call):
        return False
    kind = full_name(code, made.func).rpartition(".")
    # A hook may do anything, and torch.cond traces both sides.
    hooked = any(isinstance(one, cst.Attribute) and "hook" in one.attr.value for one in walk(code.module))
    return kind[0] == "torch.nn" and kind[2] in _MODULES and not hooked


def _values(code: ParsedFile, sides: list[cst.BaseExpression]) -> str:
    """Return what a side returns to torch.cond."""
    texts = []
    for side in sides:
        text = code.text(side)
        texts.append(f"{text}.clone()" if isinstance(side, cst.Name | cst.Attribute | cst.Subscript) else text)
    if len(texts) == 1:
        return texts[0]
    return f"({', '.join(texts)})"


REPAIR = SourceRepair("tensor_cond", "torch.cond instead of a branch on a tensor", find)
