"""A Python branch as the values that it computes: for each name, an expression for each side."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from msgspec import Struct

from ctrace.inspector.edits.syntax_code import ParsedFile, assignment_of, only
from ctrace.inspector.edits.syntax_effects import (
    is_literal,
)
from ctrace.inspector.edits.syntax_names import bound, parameters, read


class BranchSide(Struct, frozen=True):
    """What one name becomes: an expression if the test holds, and another one if not."""

    target: str
    """A name, or empty: the value is returned."""
    yes: cst.BaseExpression
    no: cst.BaseExpression


class PureBranch(Struct, frozen=True):
    """A branch whose sides only compute values."""

    test: cst.BaseExpression
    sides: tuple[BranchSide, ...]
    replaced: cst.If
    """The statement that the new ones replace."""
    removed: tuple[cst.BaseStatement, ...] = ()
    """Statements after it that they replace as well."""
    guard: cst.BaseExpression | None = None
    """A condition that Python goes on testing first, as an `if` around the new statements."""


def branch_at(code: ParsedFile, statement: cst.CSTNode) -> PureBranch | None:
    """Return the branch that an `if` statement is; None: its sides do more than compute values."""
    if not isinstance(statement, cst.If) or _is_elif(code, statement) or code.function(statement) is None:
        return None
    returned = _returned(code, statement)
    return returned or _assigned(code, statement)


def guarded_branch_at(code: ParsedFile, statement: cst.CSTNode) -> PureBranch | None:
    """Return the branch on the last condition of `if guard and test:`, without an `else`; None: it is none.

    Python evaluates the test only where the guard holds, and so does `if guard:` around what replaces the branch.
    """
    branch = branch_at(code, statement)
    if branch is None or not isinstance(statement, cst.If) or statement.orelse is not None:
        return None
    match statement.test:
        case cst.BooleanOperation(operator=cst.And(), left=guard, right=test):
            return PureBranch(test, branch.sides, statement, guard=guard)
    return None


def _is_elif(code: ParsedFile, node: cst.If) -> bool:
    above = code.parent(node)
    return isinstance(above, cst.If) and above.orelse is node


def _returned(code: ParsedFile, node: cst.If) -> PureBranch | None:
    """Return a branch of two `return`; the second one may follow the `if`."""
    yes = _return(node.body)
    if yes is None:
        return None
    if isinstance(node.orelse, cst.Else):
        no = _return(node.orelse.body)
        # Statements below an `if` of which both sides return never run, and would stay behind.
        if no is not None and not code.after(node):
            return _pairs(node, yes, no)
        return None
    # With more than one statement below, the other side does more than return.
    following = code.after(node)
    if node.orelse is not None or len(following) != 1 or not isinstance(following[0], cst.SimpleStatementLine):
        return None
    no = _return(following[0])
    if no is None:
        return None
    return _pairs(node, yes, no, removed=(following[0],))


def _pairs(
    node: cst.If, yes: cst.BaseExpression, no: cst.BaseExpression, removed: tuple[cst.BaseStatement, ...] = ()
) -> PureBranch | None:
    """Return the sides of two returned values: tuples of one length, or single values."""
    if isinstance(yes, cst.Tuple) and isinstance(no, cst.Tuple):
        if len(yes.elements) != len(no.elements) or any(
            not isinstance(one, cst.Element) for one in (*yes.elements, *no.elements)
        ):
            return None
        pairs = [(one.value, other.value) for one, other in zip(yes.elements, no.elements, strict=True)]
    else:
        pairs = [(yes, no)]
    if any(is_literal(one) or is_literal(other) for one, other in pairs):
        return None
    return PureBranch(node.test, tuple(BranchSide("", *pair) for pair in pairs), node, removed)


def _return(body: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the value of a block that is one `return`."""
    line = only(body)
    if not isinstance(line, cst.Return):
        return None
    return line.value


def _assigned(code: ParsedFile, node: cst.If) -> PureBranch | None:
    """Return a branch whose sides assign names, each once, none of which the same side reads."""
    yes = _assignments(node.body)
    no: dict[str, cst.BaseExpression] | None = {}
    if isinstance(node.orelse, cst.Else):
        no = _assignments(node.orelse.body)
    elif node.orelse is not None:
        return None
    if not yes or no is None:
        return None
    names = [*yes, *(name for name in no if name not in yes)]
    if any(name not in yes or name not in no for name in names):
        # A name that only one side assigns keeps its value on the other, which must exist: torch.where reads it.
        known = bound_before(code, node)
        if any(name not in known for name in names if name not in yes or name not in no):
            return None
    sides = []
    for name in names:
        one, other = yes.get(name, cst.Name(name)), no.get(name, cst.Name(name))
        if is_literal(one) or is_literal(other):
            return None
        sides.append(BranchSide(name, one, other))
    return PureBranch(node.test, tuple(sides), node)


def _assignments(body: cst.BaseSuite) -> dict[str, cst.BaseExpression] | None:
    """Return the value assigned to each name in a block; None: the block does something else, or the order matters."""
    found: dict[str, cst.BaseExpression] = {}
    lines: Sequence[cst.CSTNode] = body.body
    for line in lines:
        smalls: Sequence[cst.CSTNode] = [line]
        if isinstance(line, cst.SimpleStatementLine):
            smalls = line.body
        for small in smalls:
            if isinstance(small, cst.Pass):
                continue
            assignment = assignment_of(small)
            # `a = x + 1; b = a * 2` reads the new `a`, which is selected only after both sides are computed.
            if assignment is None or assignment[0].value in found or read(assignment[1]) & set(found):
                return None
            found[assignment[0].value] = assignment[1]
    return found


def bound_before(code: ParsedFile, node: cst.CSTNode) -> set[str]:
    """Return the names that are certainly bound when a statement runs: parameters, and assignments above it."""
    function = code.function(node)
    if function is None:
        return set()
    found = set(parameters(function))
    current: cst.CSTNode = node
    while current is not function:
        for one in code.above(current):
            if isinstance(one, cst.SimpleStatementLine):
                found |= bound(one)
        above = code.parent(current)
        if above is None:
            break
        current = above
    return found
