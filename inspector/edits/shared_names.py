"""Who else may hold a tensor that a branch leaves as it is: the caller, another name, a container."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import cast

import libcst as cst

from ctrace.inspector.edits.branches import PureBranch
from ctrace.inspector.edits.classes import is_plain_module, made_in_init
from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_effects import (
    FACTS,
    OTHER_OPS,
    SMOOTH,
    TESTS,
    is_number,
    is_pure_call,
    may_let_write,
    op_of,
)
from ctrace.inspector.edits.syntax_names import (
    full_name,
    parameters,
    read,
    self_attribute,
    targets,
    variables,
)
from ctrace.inspector.knowledge.counting import words
from ctrace.inspector.knowledge.torch_ops import VIEWS


def returned_as_is(code: ParsedFile, branch: PureBranch) -> set[str] | None:
    """Return the tensors that a branch leaves as they are and others may hold; None: more certainly happens to them.

    The function returns them, or a call gets them that may keep them or write to them. A selected value is new on both
    sides: a caller that also holds the existing tensor can tell. None if a line of the function stores such a tensor,
    changes it in place or compares it by identity.
    """
    found = set()
    for side in branch.sides:
        bare = [
            one for one in (side.yes, side.no) if _is_view(code, one) and not is_unshared(code, one, branch.replaced)
        ]
        if not bare:
            continue
        names = {name for one in bare for name in read(one)}
        # The author can be asked about a name; of `x.t()` or `self.cache[0]`, nobody can say who else holds it.
        if doubtful(code, branch.replaced) & (names | {side.target} - {""}):
            if not all(isinstance(one, cst.Name) for one in bare):
                return None
            found |= names
        if written(code, branch.replaced) & names or side.target in escaping(code, branch.replaced, returns=False):
            return None
        if not side.target or side.target in escaping(code, branch.replaced):
            if not all(isinstance(one, cst.Name) for one in bare):
                return None
            found |= names
    return found


def is_unshared(code: ParsedFile, node: cst.CSTNode, at: cst.CSTNode) -> bool:
    """Whether an expression is a name of a new tensor that nothing else holds when a statement runs.

    Nobody can tell such a tensor from a copy of it. Until the statement runs, each line that binds the name gives it
    the result of an op that always returns a new tensor, and any other use is one of those that `_only_reads` knows.
    No line of the function writes to it or compares it by identity.
    """
    function = code.function(at)
    if not isinstance(node, cst.Name) or function is None or node.value in parameters(function):
        return False
    name = node.value
    nodes = list(walk(function))
    if any(_hides_names(one) for one in nodes):
        return False
    # A function inside may be called at any time, and hold the tensor as long.
    inner = [one for one in nodes if isinstance(one, cst.FunctionDef | cst.Lambda) and one is not function]
    if any(name in read(one) for one in inner):
        return False
    if any(name in _shown(code, one) for one in nodes if not isinstance(one, cst.Return)):
        return False
    if name in doubtful(code, at):
        return False
    early: Iterable[cst.CSTNode] = nodes
    if not code.in_loop(at):  # in a loop, what stands below may have run before
        early = itertools.takewhile(lambda one: one is not at, nodes)
    inside = {id(one) for one in walk(at)}
    before = {id(one) for one in early} - inside
    uses = [one for one in variables(function) if one.value == name and id(one) in before]
    made = [one for one in uses if _is_made(code, one)]
    return bool(made) and all(one in made or _only_reads(code, one) for one in uses)


def _hides_names(node: cst.CSTNode) -> bool:
    """Whether a node reads or binds names that the text of the function does not show one by one."""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Name) and node.func.value in {"locals", "vars", "eval", "exec", "globals"}
    return isinstance(node, cst.Global | cst.Nonlocal | cst.Match)


def _is_made(code: ParsedFile, name: cst.Name) -> bool:
    """Whether this is the only target of an assignment of a new tensor."""
    target = code.parent(name)
    statement = None
    if isinstance(target, cst.AssignTarget):
        statement = code.parent(target)
    return isinstance(statement, cst.Assign) and len(statement.targets) == 1 and _is_new(code, statement.value)


def _is_new(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether an expression is arithmetic, or an op that returns a new tensor whatever it is given.

    `block.relu(x)` may be a module that works in place: a method counts only if its arguments are numbers.
    """
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply | cst.MatrixMultiply)
    if isinstance(node, cst.Call) and self_attribute(node.func) and _layer(code, node) in _NEW_LAYERS:
        return True
    if not isinstance(node, cst.Call) or op_of(code, node) not in _NEW or not is_pure_call(code, node):
        return False
    return full_name(code, node.func).startswith("torch.") or all(is_number(one.value) for one in node.args)


def _only_reads(code: ParsedFile, name: cst.Name) -> bool:
    """Whether a use of a tensor computes something new from it, asks for its header, or returns it."""
    around = code.parent(name)
    above = None
    if around is not None:
        above = code.parent(around)
    if isinstance(around, cst.Return):
        return True
    if isinstance(around, cst.Element):  # a list would hold it; a tuple that is returned is the caller's
        return isinstance(above, cst.Tuple) and isinstance(code.parent(above), cst.Return)
    if isinstance(around, cst.UnaryOperation):
        return isinstance(around.operator, cst.Minus | cst.Not | cst.BitInvert)  # `+y` is y itself
    if isinstance(around, cst.Attribute):
        is_method = isinstance(above, cst.Call) and above.func is around
        if is_method:
            return _computes(code, above)
        return around.attr.value in _HEADER
    if isinstance(around, cst.Arg):
        return _computes(code, above) and full_name(code, cast("cst.Call", above).func).startswith("torch.")
    return isinstance(around, cst.BinaryOperation | cst.Comparison | cst.ComparisonTarget)


def _computes(code: ParsedFile, call: cst.CSTNode | None) -> bool:
    return (
        isinstance(call, cst.Call)
        and op_of(code, call) in _NEW | OTHER_OPS | TESTS | FACTS
        and is_pure_call(code, call)
    )


_HEADER = frozenset({"shape", "dtype", "device", "ndim", "requires_grad"})
_NEW = SMOOTH - {"einsum"} | {"clone"}  # einsum may return a view: `einsum("ij->ji", x)`
_READS = _NEW | OTHER_OPS | TESTS | FACTS
_KEEPS = words("append extend insert add data_ptr untyped_storage storage is_set_to share_memory_")


def _is_view(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether an expression may be an existing tensor, or share memory with one."""
    if isinstance(node, cst.Name | cst.Attribute | cst.Subscript):
        return True
    return isinstance(node, cst.Call) and op_of(code, node) in VIEWS


def escaping(code: ParsedFile, after: cst.CSTNode, *, returns: bool = True) -> set[str]:
    """Return the names of a function whose tensors other code may identify.

    They are returned or stored as they are, changed in place, or compared by identity. Without `returns`, those that
    are only returned are left out.
    """
    function = code.function(after)
    if function is None:
        return set()
    return {name for one in walk(function) if returns or not isinstance(one, cst.Return) for name in _shown(code, one)}


def doubtful(code: ParsedFile, near: cst.CSTNode) -> set[str]:
    """Return the names of a function whose tensors a call gets that may keep them, or write to them."""
    function = code.function(near)
    if function is None:
        return set()
    names: set[str] = set()
    for node in walk(function):
        if isinstance(node, cst.Call) and not _is_harmless(code, node, _DEEPEST):
            names |= _passed_names(node)
    return names


def _passed_names(call: cst.Call) -> set[str]:
    """Return the names whose tensors a call gets as they are: its arguments, and what it is a method of."""
    passed = set().union(*(_bare_names(arg.value) for arg in call.args))
    match call.func:
        case cst.Attribute(value=owner):
            return passed | (_bare_names(owner) - {"self"})
        case cst.Name():
            return passed
        case _:  # such as `steps[0](x)` or `step_of(y)(x)`: what it calls may hold any tensor that is named there
            return passed | read(call.func)


def _is_harmless(code: ParsedFile, call: cst.Call, deep: int) -> bool:
    """Whether a call certainly neither writes to what it gets nor keeps it, by its name or by its code in this file."""
    whole = full_name(code, call.func)
    if any(map(may_let_write, call.args)):
        return False
    if is_pure_call(code, call) or whole in _HARMLESS:
        return True
    # By convention, functions of torch that write in place end with an underscore.
    if whole.startswith("torch."):
        return not whole.endswith("_")
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _ASKING:
        return True
    name = self_attribute(call.func)
    if name and _layer(code, call):
        return _layer(code, call) in _NEW_LAYERS | _VIEWING_LAYERS
    return bool(deep) and any(_computes_only(code, one, deep - 1) for one in _definitions(code, call, name))


def _layer(code: ParsedFile, call: cst.Call) -> str:
    """Return which layer of torch.nn a call of an attribute runs, by the one line of `__init__` that makes it.

    Empty: it is not known, or the layer may write to what it gets.
    """
    made = made_in_init(code, call)
    if not isinstance(made, cst.Call):
        return ""
    package, _, kind = full_name(code, made.func).rpartition(".")
    if package != "torch.nn" or _may_be_in_place(kind, made):
        return ""
    return kind


def _may_be_in_place(kind: str, made: cst.Call) -> bool:
    """Whether a line that makes a layer may set its `inplace`."""
    if kind not in _BEFORE_INPLACE:
        return False
    is_named = any(arg.star or (arg.keyword is not None and arg.keyword.value == "inplace") for arg in made.args)
    return is_named or len(made.args) > _BEFORE_INPLACE[kind]


def _definitions(code: ParsedFile, call: cst.Call, name: str) -> list[cst.CSTNode]:
    """Return the one function of this file, or the class of a submodule, whose code a call runs; empty: not known."""
    function = code.function(call)
    owner = None
    if function is not None:
        owner = code.owner(function)
    kinds = (cst.FunctionDef, cst.ClassDef)
    if isinstance(call.func, cst.Name):
        found = [one for one in walk(code.module) if isinstance(one, kinds) and one.name.value == call.func.value]
        if len(found) == 1 and isinstance(found[0], cst.FunctionDef):
            return list(found)
        return []
    if not name or owner is None:
        return []
    methods = [one for one in walk(code.module) if isinstance(one, cst.FunctionDef) and one.name.value == name]
    if methods:
        if len(methods) == 1 and code.owner(methods[0]) is owner:
            return list(methods)
        return []
    # No such method in the file, so the attribute is a submodule.
    made = made_in_init(code, call)
    if not isinstance(made, cst.Call) or not isinstance(made.func, cst.Name):
        return []
    kind = made.func.value
    classes = [one for one in walk(code.module) if isinstance(one, cst.ClassDef) and one.name.value == kind]
    plain = len(classes) == 1 and is_plain_module(classes[0])
    if not plain:
        return []
    return [one for one in classes[0].body.body if isinstance(one, cst.FunctionDef)]


def _computes_only(code: ParsedFile, definition: cst.CSTNode, deep: int) -> bool:
    """Whether a function's lines neither write in place nor keep anything; what `__init__` does was before the call."""
    assert isinstance(definition, cst.FunctionDef)
    if definition.name.value == "__init__":
        return True
    for one in walk(definition):
        if isinstance(one, cst.AugAssign | cst.Global | cst.Nonlocal | cst.Yield | cst.Lambda):
            return False
        # `x[0] = y` and `self.kept = y` write to, or keep, what the function gets.
        if isinstance(one, cst.Assign) and any(_root(target.target) for target in one.targets):
            return False
        if isinstance(one, cst.Call) and (_writes(one) or (_passed_names(one) and not _is_harmless(code, one, deep))):
            return False
    return True


_DEEPEST = 2
"""Calls of calls that are read."""
_HARMLESS = words("print len range zip enumerate str repr type isinstance tuple list dict sorted sum super")
_ASKING = words("item tolist cpu backward register_hook retain_grad size dim numel new_tensor __init__")
"""Methods that neither write to a tensor nor keep it elsewhere."""
_NEW_LAYERS = words("Linear Bilinear Conv1d Conv2d Conv3d LayerNorm GroupNorm RMSNorm Softmax GELU SiLU Tanh Sigmoid")
"""Layers of torch.nn that write to nothing that they get, and return new memory (nn/modules/*.py:forward, 2.13)."""
_BEFORE_INPLACE = {"SiLU": 0, "Dropout": 1}
"""How many arguments come before `inplace` in the layers below that have it (nn/modules/*.py, 2.13)."""
_VIEWING_LAYERS = words("Identity Flatten Dropout Embedding BatchNorm1d BatchNorm2d MultiheadAttention")
"""Layers that write to nothing that they get, and may return it."""


def written(code: ParsedFile, near: cst.CSTNode) -> set[str]:
    """Return the names of a function whose tensors some line changes in place."""
    function = code.function(near)
    if function is None:
        return set()
    found: set[str] = set()
    for one in walk(function):
        if isinstance(one, cst.AugAssign):
            found |= targets(one.target) | _root(one.target)
        elif isinstance(one, cst.Assign):
            found = found.union(*(_root(target.target) for target in one.targets))
        elif isinstance(one, cst.Call) and _writes(one) and isinstance(one.func, cst.Attribute):
            found |= read(one.func.value)
    return found


def _shown(code: ParsedFile, node: cst.CSTNode) -> set[str]:
    """Return the names that one node lets escape."""
    if isinstance(node, cst.Return | cst.Yield):
        if not isinstance(node.value, cst.BaseExpression):
            return set()
        return _bare_names(node.value)
    if isinstance(node, cst.Assign):
        return _bare_names(node.value).union(*(_root(target.target) for target in node.targets))
    if isinstance(node, cst.AugAssign):
        return targets(node.target) | _root(node.target)
    if isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, cst.Is | cst.IsNot):
        around = code.parent(node)
        if around is None:
            return set()
        return read(around)
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "out":
        return read(node.value)
    if isinstance(node, cst.Call) and _writes(node):
        return read(node)
    return set()


def _writes(call: cst.Call) -> bool:
    """Whether a call changes its operand, keeps it, or reads its identity."""
    if isinstance(call.func, cst.Attribute):
        method = call.func.attr.value
        return (method.endswith("_") and not method.endswith("__")) or method in _KEEPS
    return isinstance(call.func, cst.Name) and call.func.value in {"id", "setattr", "isinstance", "type"}


def _root(target: cst.CSTNode) -> set[str]:
    """Return the name at the start of an assigned subscript or attribute."""
    if isinstance(target, cst.Subscript | cst.Attribute):
        while isinstance(target, cst.Subscript | cst.Attribute | cst.Call):
            if isinstance(target, cst.Call):
                target = target.func
            else:
                target = target.value
        if not isinstance(target, cst.Name):
            return set()
        return {target.value}
    return set()


def _bare_names(node: cst.CSTNode) -> set[str]:
    """Return the names that a value is, or holds in a tuple, list or dict, or as a view."""
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
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in VIEWS:
        return _bare_names(node.func.value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in {"dict", "list", "tuple"}:
        return {name for arg in node.args for name in _bare_names(arg.value)}
    return set()
