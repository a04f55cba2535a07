"""Choose with torch.cond instead of branching on a tensor's value.

Matches the same branches as torch.where does, also where the sides call modules or functions: only the side that is
chosen runs. A side that is an existing tensor is cloned, since torch.cond returns no input.

Leaves alone sides that are no tensors or differ in shape or dtype by reading, sides that write, print, raise or draw
random numbers, and a side that is an existing tensor where the result escapes as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ctrace.inspector.repairs.model import Place, Rewrite, SourceRepair
from ctrace.inspector.repairs.syntax.branches import Branch, branch_at, may_alias
from ctrace.inspector.repairs.syntax.code import code_of, walk
from ctrace.inspector.repairs.syntax.conditions import as_tensor
from ctrace.inspector.repairs.syntax.edits import Edits
from ctrace.inspector.repairs.syntax.effects import is_literal, is_pure, is_smooth, op_of, shape_of
from ctrace.inspector.repairs.syntax.names import dotted, read, torch_name
from ctrace.inspector.repairs.syntax.words import words

if TYPE_CHECKING:
    import libcst as cst

    from ctrace.inspector.repairs.syntax.code import Code

_RANDOM = words(
    """
    dropout rand randn randint bernoulli multinomial normal rand_like randn_like randperm
    """
)
_WRITES = words(
    """
    print append extend update pop setattr manual_seed backward register_hook open next exec
    """
)


def find(place: Place) -> Iterator[Rewrite]:
    """Yield the branch at a place as torch.cond."""
    code = code_of(place)
    statement = code.statement(place.line) if code is not None else None
    if code is None or statement is None:
        return
    branch = branch_at(code, statement)
    if branch is not None and not may_alias(code, branch):
        yield from _branch(code, branch)


def _branch(code: Code, branch: Branch) -> Iterator[Rewrite]:
    test = cast("cst.BaseExpression", branch.test)
    condition = as_tensor(code, test)
    yes = [cast("cst.BaseExpression", side.yes) for side in branch.sides]
    no = [cast("cst.BaseExpression", side.no) for side in branch.sides]
    if condition is None or not all(_choosable(code, *pair) for pair in zip(yes, no, strict=True)):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    names = {side.target for side in branch.sides}
    if len(names) > 1 and any(read(one) & names - {side.target} for side in branch.sides for one in _both(side)):
        return
    chosen = f"{torch}.cond({condition}, lambda: {_values(code, yes)}, lambda: {_values(code, no)})"
    targets = ", ".join(side.target for side in branch.sides if side.target)
    edits.statement(
        cast("cst.BaseStatement", branch.replaced), f"{targets} = {chosen}" if targets else f"return {chosen}"
    )
    for one in branch.removed:
        edits.remove(cast("cst.BaseStatement", one))
    shown = code.text(test)
    yield Rewrite(edits.apply(), f"Replace the branch on `{shown}` by torch.cond.", needs_inputs=(shown,))


def _both(side: object) -> tuple[cst.CSTNode, cst.CSTNode]:
    return side.yes, side.no  # type: ignore[attr-defined]


def _choosable(code: Code, yes: cst.BaseExpression, no: cst.BaseExpression) -> bool:
    """Whether either side computes a new tensor, of one shape and dtype by reading, and does nothing else."""
    if is_literal(yes) or is_literal(no) or shape_of(code, yes) != shape_of(code, no):
        return False
    if all(is_pure(code, side) and is_smooth(code, side) for side in (yes, no)) and not _worth(code, yes, no):
        return False
    return all(_is_quiet(code, side) for side in (yes, no))


def _worth(code: Code, yes: cst.BaseExpression, no: cst.BaseExpression) -> bool:
    """Whether a side computes so much that running only one of them pays."""
    import libcst as cst

    heavy = {"linear", "matmul", "mm", "bmm", "conv1d", "conv2d", "einsum"}
    nodes = [one for side in (yes, no) for one in walk(side)]
    return any(
        isinstance(one, cst.MatrixMultiply) or (isinstance(one, cst.Call) and op_of(code, one) in heavy)
        for one in nodes
    )


def _is_quiet(code: Code, side: cst.BaseExpression) -> bool:
    """Whether no call in an expression is known to write, and none draws random numbers."""
    import libcst as cst

    for one in walk(side):
        if isinstance(one, cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda | cst.BaseComp | cst.FormattedString):
            return False
        if isinstance(one, cst.Arg) and one.keyword is not None and one.keyword.value in {"out", "inplace"}:
            return False
        if isinstance(one, cst.Call):
            name = dotted(one.func).rpartition(".")[2] or (
                one.func.attr.value if isinstance(one.func, cst.Attribute) else ""
            )
            if not name or name in _RANDOM | _WRITES or (name.endswith("_") and not name.endswith("__")):
                return False
            if name in {"item", "tolist", "numpy", "detach", "cpu", "cuda"}:
                return False
    return True


def _values(code: Code, sides: list[cst.BaseExpression]) -> str:
    """Return what a side returns to torch.cond."""
    import libcst as cst

    texts = []
    for side in sides:
        text = code.text(side)
        texts.append(f"{text}.clone()" if isinstance(side, cst.Name | cst.Attribute | cst.Subscript) else text)
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


REPAIR = SourceRepair("tensor_cond", "torch.cond instead of a branch on a tensor", find)
