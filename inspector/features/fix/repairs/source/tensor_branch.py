"""Select with torch.where instead of branching on a tensor's value.

Matches `if test:` with assignments on both sides, or on one side to a name that has a value already; two `return`;
and `a if test else b`. Of `if guard and test:`, where the guard is no tensor, `if guard:` stays. Both sides are
computed then, and the values of one are used. What may overflow or divide by zero where it is not selected computes
with ones there.

Leaves alone what would show that both sides ran: calls it does not know, assignments to attributes, changes in place,
random numbers, ops whose gradient may be infinite or NaN also for ones, or that may raise, sides that are no
tensors or differ in shape or dtype by reading, and a side that is an existing tensor where the result is stored,
changed in place or compared by identity. If it is only returned, and something else may hold it, it asks first.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

import libcst as cst

from ctrace.inspector.edits.branches import BranchSide, PureBranch, branch_at, guarded_branch_at
from ctrace.inspector.edits.conditions import as_tensor
from ctrace.inspector.edits.masking import is_maskable, masked, needs_mask
from ctrace.inspector.edits.selection import Selection, selecting, where
from ctrace.inspector.edits.shared_names import doubtful, escaping, is_unshared, returned_as_is
from ctrace.inspector.edits.syntax_code import ParsedFile, code_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_literal, shape_of
from ctrace.inspector.edits.syntax_names import fresh, read, torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the branch at a place as torch.where."""
    code = code_of(place)
    if code is None:
        return
    statement = code.statement(place.line)
    torch = torch_name(code, Edits(code)) or ""
    for known in (branch_at, guarded_branch_at):
        branch = None
        if statement is not None:
            branch = known(code, statement)
        condition = None
        if branch is not None:
            condition = as_tensor(code, branch.test, torch=torch)
        if branch is not None and condition is not None:
            yield from selected(code, branch, condition)
            # With the whole test as a tensor, Python need not go on testing a guard.
            break
    for node in code.head(place.line):
        if isinstance(node, cst.IfExp):
            yield from _ternary(code, node)


def selectable(code: ParsedFile, yes: cst.BaseExpression, no: cst.BaseExpression) -> bool:
    """Whether computing both sides and selecting one certainly gives the same result."""
    if is_literal(yes) or is_literal(no):
        return False
    return all(is_maskable(code, side) for side in (yes, no)) and shape_of(code, yes) == shape_of(code, no)


def selected(code: ParsedFile, branch: PureBranch, condition: str) -> Iterator[SourceRewrite]:
    """Yield a branch as torch.where on a condition; nothing if computing both sides may differ from computing one."""
    held = returned_as_is(code, branch)
    if held is None or not all(selectable(code, side.yes, side.no) for side in branch.sides):
        return
    shown = code.text(branch.test)
    names = " and ".join(f"`{name}`" for name in sorted(held))
    question = None
    if held:
        question = f"May the result be a new tensor where it was {names} itself?"
    # The shorter text comes first: it is right where no name holds an infinite value, which trying shows.
    texts: list[str] = []
    for factors in (False, True):
        edits = Edits(code)
        torch = torch_name(code, edits)
        if torch is None:
            return
        text = _text(code, branch.sides, condition, torch, fresh(code, "condition"), factors=factors)
        # Where no factor needs ones, both texts are the same.
        if text is None or text in texts:
            return
        texts.append(text)
        edits.statement(branch.replaced, _behind_guard(code, branch, text))
        for one in branch.removed:
            edits.remove(one)
        summary = f"Replace the branch on `{shown}` by torch.where"
        yield SourceRewrite(
            edits.apply(),
            f"{summary}, with ones for each factor that is not selected." if factors else f"{summary}.",
            question=question,
            needs_inputs=(shown,),
        )


def _behind_guard(code: ParsedFile, branch: PureBranch, text: str) -> str:
    """Return statements below the condition that Python goes on testing first, if there is one."""
    if branch.guard is None:
        return text
    guard = code.text(branch.guard)
    if "\n" in guard:
        # A condition over several lines needs parentheses, which may have been around the whole test.
        head = f"if ({guard}):"
    else:
        head = f"if {guard}:"
    return f"{head}\n{indent(text, '    ')}"


def _text(
    code: ParsedFile, sides: tuple[BranchSide, ...], condition: str, torch: str, name: str, *, factors: bool
) -> str | None:
    """Return the statements that select; None: a side reads a name that an earlier one assigned."""
    masks = [needs_mask(code, one, factors=factors) for side in sides for one in (side.yes, side.no)]
    several = len(sides) > 1 or any(masks)
    if several:
        chosen = name
    else:
        chosen, name = condition, ""
    selections, assigned = [], set[str]()
    for side in sides:
        if (read(side.yes) | read(side.no)) & assigned:
            return None
        assigned.add(side.target)
        both = _finite(code, side.yes, side.no, chosen, torch, factors=factors)
        selections.append(Selection(side.target, *both))
    return "\n".join(selecting(torch, condition, selections, name=name))


def _finite(
    code: ParsedFile,
    yes: cst.BaseExpression,
    no: cst.BaseExpression,
    condition: str,
    torch: str,
    *,
    factors: bool = False,
) -> tuple[str, str]:
    """Return the two sides of a selection, each finite where it is not selected."""
    first = masked(code, yes, condition, torch, holds=True, factors=factors)
    second = masked(code, no, condition, torch, holds=False, factors=factors)
    return first, second


def _ternary(code: ParsedFile, node: cst.IfExp) -> Iterator[SourceRewrite]:
    condition = as_tensor(code, node.test, torch=torch_name(code, Edits(code)) or "")
    if condition is None or not selectable(code, node.body, node.orelse):
        return
    bare = any(
        isinstance(one, cst.Name | cst.Attribute | cst.Subscript) and not is_unshared(code, one, node)
        for one in (node.body, node.orelse)
    )
    # torch.where returns a new tensor, where the choice was one that others may hold.
    if bare and _escapes(code, node):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    edits.expression(node, where(torch, condition, *_finite(code, node.body, node.orelse, condition, torch)))
    shown = code.text(node.test)
    yield SourceRewrite(edits.apply(), f"Replace the choice on `{shown}` by torch.where.", needs_inputs=(shown,))


def _escapes(code: ParsedFile, node: cst.IfExp) -> bool:
    """Whether the value of a ternary itself is returned, stored, or changed in place."""
    above = code.parent(node)
    if isinstance(above, cst.Assign):
        names = {one.value for target in above.targets for one in walk(target.target) if isinstance(one, cst.Name)}
        plain = all(isinstance(target.target, cst.Name) for target in above.targets)
        return not plain or bool(names & (escaping(code, node) | doubtful(code, node)))
    return not isinstance(above, cst.BinaryOperation | cst.UnaryOperation | cst.Attribute)


REPAIR = SourceRepair("tensor_branch", "torch.where instead of a branch on a tensor", find)
