"""A Python branch as the values that it computes: for each name, an expression for each side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ctrace.inspector.repairs.syntax.code import index_of, walk
from ctrace.inspector.repairs.syntax.effects import FACTS, SMOOTH, TESTS, is_literal, is_pure_call, op_of
from ctrace.inspector.repairs.syntax.names import bound, parameters, read, targets
from ctrace.inspector.repairs.syntax.words import words

if TYPE_CHECKING:
    import libcst as cst

    from ctrace.inspector.repairs.syntax.code import Code


class Side(Struct, frozen=True):
    """What one name becomes: an expression if the test holds, and another one if not."""

    target: str
    """A name, or empty: the value is returned."""
    yes: object
    no: object


class Branch(Struct, frozen=True):
    """A branch whose sides only compute values."""

    test: object
    sides: tuple[Side, ...]
    replaced: object
    """The statement that the new ones replace."""
    removed: tuple[object, ...] = ()
    """Statements after it that they replace as well."""


def branch_at(code: Code, statement: cst.CSTNode) -> Branch | None:
    """Return the branch that an `if` statement is; None: its sides do more than compute values."""
    import libcst as cst

    if not isinstance(statement, cst.If) or _is_elif(code, statement) or code.function(statement) is None:
        return None
    returned = _returned(code, statement)
    return returned or _assigned(code, statement)


def _is_elif(code: Code, node: cst.If) -> bool:
    import libcst as cst

    above = code.parent(node)
    return isinstance(above, cst.If) and above.orelse is node


def _returned(code: Code, node: cst.If) -> Branch | None:
    """Return a branch of two `return`; the second one may follow the `if`."""
    import libcst as cst

    yes = _return(node.body)
    if yes is None:
        return None
    if isinstance(node.orelse, cst.Else):
        no = _return(node.orelse.body)
        return _pairs(node, yes, no) if no is not None and not code.after(node) else None
    following = code.after(node)
    if node.orelse is not None or len(following) != 1 or not isinstance(following[0], cst.SimpleStatementLine):
        return None
    no = _return(following[0])
    return _pairs(node, yes, no, removed=(following[0],)) if no is not None else None


def _pairs(
    node: cst.If, yes: cst.BaseExpression, no: cst.BaseExpression, removed: tuple[cst.CSTNode, ...] = ()
) -> Branch | None:
    """Return the sides of two returned values: tuples of one length, or single values."""
    import libcst as cst

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
    return Branch(node.test, tuple(Side("", *pair) for pair in pairs), node, removed)


def _return(body: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the value of a block that is one `return`."""
    import libcst as cst

    line = _only(body)
    return line.value if isinstance(line, cst.Return) else None


def _only(body: cst.CSTNode) -> cst.CSTNode | None:
    """Return the one small statement of a block."""
    import libcst as cst

    if isinstance(body, cst.IndentedBlock):
        return _only(body.body[0]) if len(body.body) == 1 else None
    if isinstance(body, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        return body.body[0] if len(body.body) == 1 else None
    return None


def _assigned(code: Code, node: cst.If) -> Branch | None:
    """Return a branch whose sides assign names, each once, none of which the same side reads."""
    import libcst as cst

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
        known = bound_before(code, node)
        if any(name not in known for name in names if name not in yes or name not in no):
            return None
    sides = []
    for name in names:
        one, other = yes.get(name, cst.Name(name)), no.get(name, cst.Name(name))
        if is_literal(one) or is_literal(other):
            return None
        sides.append(Side(name, one, other))
    return Branch(node.test, tuple(sides), node)


def _assignments(body: cst.BaseSuite) -> dict[str, cst.BaseExpression] | None:
    """Return the value assigned to each name in a block; None: the block does something else, or the order matters."""
    import libcst as cst

    found: dict[str, cst.BaseExpression] = {}
    lines: Sequence[cst.CSTNode] = body.body
    for line in lines:
        smalls = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        for small in smalls:
            if isinstance(small, cst.Pass):
                continue
            if not isinstance(small, cst.Assign) or len(small.targets) != 1:
                return None
            target = small.targets[0].target
            if not isinstance(target, cst.Name) or target.value in found:
                return None
            if read(small.value) & set(found):
                return None
            found[target.value] = small.value
    return found


def bound_before(code: Code, node: cst.CSTNode) -> set[str]:
    """Return the names that are certainly bound when a statement runs: parameters, and assignments above it."""
    import libcst as cst

    function = code.function(node)
    if function is None:
        return set()
    found = set(parameters(function))
    current: cst.CSTNode = node
    while current is not function:
        block = code.block(current)
        if block:
            for one in block[: index_of(block, current)]:
                if isinstance(one, cst.SimpleStatementLine):
                    found |= bound(one)
        above = code.parent(current)
        if above is None:
            break
        current = above
    return found


def returned_as_is(code: Code, branch: Branch) -> set[str] | None:
    """Return the tensors that a branch leaves as they are and the function returns; None: more happens to them.

    A selected value is new on both sides: a caller that also holds the existing tensor can tell. None if a line of the
    function stores such a tensor, changes it in place or compares it by identity.
    """
    import libcst as cst

    assert isinstance(branch.replaced, cst.CSTNode)
    found = set()
    for side in branch.sides:
        bare = [
            one
            for one in (side.yes, side.no)
            if isinstance(one, cst.CSTNode) and _is_view(code, one) and not is_unshared(code, one, branch.replaced)
        ]
        if not bare:
            continue
        names = {name for one in bare for name in read(one)}
        if written(code, branch.replaced) & names or side.target in escaping(code, branch.replaced, returns=False):
            return None
        if not side.target or side.target in escaping(code, branch.replaced):
            if not all(isinstance(one, cst.Name) for one in bare):
                return None
            found |= names
    return found


def is_unshared(code: Code, node: cst.CSTNode, at: cst.CSTNode) -> bool:
    """Whether an expression is a name of a new tensor that nothing else holds when a statement runs.

    Nobody can tell such a tensor from a copy of it. Every line of the function that binds the name gives it the result
    of an op that always returns a new tensor, and no line writes to it, compares it by identity, or takes a view. Until
    the statement runs, only ops read it: another function might keep it, or return it.
    """
    import libcst as cst

    function = code.function(at)
    if not isinstance(node, cst.Name) or function is None or node.value in parameters(function):
        return False
    name = node.value
    nodes = list(walk(function))
    if any(isinstance(one, cst.Global | cst.Nonlocal) for one in nodes):
        return False
    inner = [one for one in nodes if isinstance(one, cst.FunctionDef | cst.Lambda) and one is not function]
    if any(name in read(one) for one in inner):
        return False
    inside = {id(one) for one in walk(at)}
    binding = [one for one in nodes if _binds(one, name) and id(one) not in inside]
    if not binding or not all(isinstance(one, cst.Assign) and _is_new(code, one.value) for one in binding):
        return False
    if any(name in _shown(code, one) for one in nodes if not isinstance(one, cst.Return)):
        return False
    if any(name in _bare_names(one.iter) for one in nodes if isinstance(one, cst.For | cst.CompFor)):
        return False
    early = nodes if _in_loop(code, at) else itertools.takewhile(lambda one: one is not at, nodes)
    return not any(
        isinstance(one, cst.Call) and name in read(one) and op_of(code, one) not in _NEW | TESTS | FACTS
        for one in early
    )


def _binds(node: cst.CSTNode, name: str) -> bool:
    """Whether a node itself, and none below it, binds a name."""
    import libcst as cst

    if isinstance(node, cst.Assign):
        return any(name in targets(one.target) for one in node.targets)
    if isinstance(node, cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For | cst.CompFor | cst.Del):
        return name in bound(node)
    return isinstance(node, cst.AsName | cst.ImportAlias) and name in bound(node)


def _is_new(code: Code, node: cst.CSTNode) -> bool:
    """Whether an expression is arithmetic, or an op that returns a new tensor whatever it is given."""
    import libcst as cst

    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply | cst.MatrixMultiply)
    return isinstance(node, cst.Call) and is_pure_call(code, node) and op_of(code, node) in _NEW


def _in_loop(code: Code, node: cst.CSTNode) -> bool:
    import libcst as cst

    above = code.parent(node)
    while above is not None and not isinstance(above, cst.FunctionDef):
        if isinstance(above, cst.For | cst.While):
            return True
        above = code.parent(above)
    return False


_NEW = SMOOTH - {"einsum"} | {"clone"}  # einsum may return a view: `einsum("ij->ji", x)`
_KEEPS = words("append extend insert add data_ptr untyped_storage storage is_set_to share_memory_")
_VIEWS = words(
    """
    view reshape flatten unsqueeze squeeze permute transpose t expand narrow unfold chunk split select
    contiguous view_as reshape_as expand_as to type type_as float double half bfloat16 detach swapaxes movedim
    unbind
    """
)


def _is_view(code: Code, node: cst.CSTNode) -> bool:
    """Whether an expression may be an existing tensor, or share memory with one."""
    import libcst as cst

    if isinstance(node, cst.Name | cst.Attribute | cst.Subscript):
        return True
    return isinstance(node, cst.Call) and op_of(code, node) in _VIEWS


def escaping(code: Code, after: cst.CSTNode, *, returns: bool = True) -> set[str]:
    """Return the names of a function whose tensors other code may identify.

    They are returned or stored as they are, changed in place, or compared by identity. Without `returns`, those that
    are only returned are left out.
    """
    import libcst as cst

    function = code.function(after)
    nodes = walk(function) if function is not None else ()
    return {name for one in nodes if returns or not isinstance(one, cst.Return) for name in _shown(code, one)}


def written(code: Code, near: cst.CSTNode) -> set[str]:
    """Return the names of a function whose tensors some line changes in place."""
    import libcst as cst

    function = code.function(near)
    found: set[str] = set()
    for one in walk(function) if function is not None else ():
        if isinstance(one, cst.AugAssign):
            found |= targets(one.target) | _root(one.target)
        elif isinstance(one, cst.Assign):
            found = found.union(*(_root(target.target) for target in one.targets))
        elif isinstance(one, cst.Call) and _writes(one):
            found |= read(one.func.value) if isinstance(one.func, cst.Attribute) else set()
    return found


def _shown(code: Code, node: cst.CSTNode) -> set[str]:
    """Return the names that one node lets escape."""
    import libcst as cst

    if isinstance(node, cst.Return | cst.Yield):
        return _bare_names(node.value) if isinstance(node.value, cst.BaseExpression) else set()
    if isinstance(node, cst.Assign):
        return _bare_names(node.value).union(*(_root(target.target) for target in node.targets))
    if isinstance(node, cst.AugAssign):
        return targets(node.target) | _root(node.target)
    if isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, cst.Is | cst.IsNot):
        around = code.parent(node)
        return read(around) if around is not None else set()
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "out":
        return read(node.value)
    return read(node) if isinstance(node, cst.Call) and _writes(node) else set()


def _writes(call: cst.Call) -> bool:
    """Whether a call changes its operand, keeps it, or reads its identity."""
    import libcst as cst

    if isinstance(call.func, cst.Attribute):
        method = call.func.attr.value
        return (method.endswith("_") and not method.endswith("__")) or method in _KEEPS
    return isinstance(call.func, cst.Name) and call.func.value in {"id", "setattr", "isinstance", "type"}


def _root(target: cst.CSTNode) -> set[str]:
    """Return the name at the start of an assigned subscript or attribute."""
    import libcst as cst

    if isinstance(target, cst.Subscript | cst.Attribute):
        while isinstance(target, cst.Subscript | cst.Attribute | cst.Call):
            target = target.func if isinstance(target, cst.Call) else target.value
        return {target.value} if isinstance(target, cst.Name) else set()
    return set()


def _bare_names(node: cst.CSTNode) -> set[str]:
    """Return the names that a value is, or holds in a tuple, list or dict, or as a view."""
    import libcst as cst

    if isinstance(node, cst.Name):
        return {node.value}
    if isinstance(node, cst.Tuple | cst.List | cst.Set):
        return {name for one in node.elements for name in _bare_names(one.value)}
    if isinstance(node, cst.Dict):
        return {name for one in node.elements for name in _bare_names(one.value)}
    if isinstance(node, cst.Subscript):
        return _bare_names(node.value)
    if isinstance(node, cst.IfExp):
        return _bare_names(node.body) | _bare_names(node.orelse)
    if isinstance(node, cst.Attribute) and node.attr.value in {"T", "mT", "data", "real", "grad"}:
        return _bare_names(node.value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
        return _bare_names(node.func.value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in {"dict", "list", "tuple"}:
        return {name for arg in node.args for name in _bare_names(arg.value)}
    return set()
