"""Copy tensors with `clone` instead of `copy.deepcopy`, and dictionaries with their own `copy`.

Matches `c = copy.deepcopy(E)` where E is a name or an attribute, and its use shows what it is: a tensor, if the copy or
E is an operand of arithmetic, computes or is changed in place; a dictionary of tensors, if the copy is read by string
keys. The copy of a tensor is a leaf that needs gradients if the original does. `c = copy.copy(E)` of a dictionary
becomes `E.copy()`. Dictionaries of other classes are copied as before.

Leaves alone copies whose use does not show what they are, such as those that are only passed on, modules, and copies of
which code reads `.grad` or an attribute that no tensor has: a clone has neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from msgspec import Struct

from ctrace.inspector.edits.syntax_code import ParsedFile, assignment_of, index_in, lone_statement
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import op_of
from ctrace.inspector.edits.syntax_names import assigned, dotted, full_name, torch_name, variables
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.source.attribute_writes import TENSOR_ATTRIBUTES

_COMPUTING = frozenset(("sum", "mean", "abs", "relu"))
"""Methods that tensors have, and objects that are copied otherwise do not."""


class Copy(Struct, frozen=True):
    """An assignment `c = copy.deepcopy(E)` or `c = copy.copy(E)` in a function, where E is a name or an attribute."""

    code: ParsedFile
    statement: cst.SimpleStatementLine
    function: cst.FunctionDef
    call: cst.Call
    kind: str
    """`copy.deepcopy` or `copy.copy`."""
    original: cst.BaseExpression
    uses: tuple[cst.Name, ...]
    """Where the function names the copy otherwise."""


def copy_at(place: RepairPlace) -> Copy | None:
    """Return the copy that the statement at a place assigns to a variable."""
    found = lone_statement(place)
    if found is None:
        return None
    code, statement, small = found
    function = code.function(statement)
    assignment = assignment_of(small)
    if assignment is None or function is None:
        return None
    target, call = assignment
    if not isinstance(call, cst.Call) or len(call.args) != 1:
        return None
    kind, original = full_name(code, call.func), call.args[0].value
    # Names and attributes only, since the new text names the original twice.
    if kind not in {"copy.deepcopy", "copy.copy"} or call.args[0].star or not dotted(original):
        return None
    uses = tuple(one for one in variables(function) if one.value == target.value and one is not target)
    return Copy(code, statement, function, call, kind, original, uses)


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the copy at a place without the module `copy`."""
    copy = copy_at(place)
    if copy is None:
        return
    code, original, is_deep = copy.code, copy.original, copy.kind == "copy.deepcopy"
    if is_deep and any(_reads_attribute(code, one) for one in copy.uses):
        return
    same = [one for one in variables(copy.function) if isinstance(original, cst.Name) and one.value == original.value]
    text = code.text(original)
    edits = Edits(code)
    if any(_is_dictionary(code, one) for one in copy.uses):
        torch = torch_name(code, edits)
        if torch is None:
            return
        # What is no tensor, or a parameter, is copied as before.
        value = f"{_clone('value')} if type(value) is {torch}.Tensor else {code.text(copy.call.func)}(value)"
        deep = f"{{key: {value} for key, value in {text}.items()}}"
        if is_deep:
            new = deep
        else:
            new = f"{text}.copy()"
        if not _is_plain(code, original):
            # A dictionary of another class, or what only looks like one, is copied as before: `copy` may give a dict.
            new = f"{new} if type({text}) is dict else {code.text(copy.call)}"
        edits.expression(copy.call, new)
        how = "clone() of each tensor" if is_deep else "its own copy()"
        yield SourceRewrite(edits.apply(), f"Copy the dictionary `{text}` with {how} instead of {copy.kind}.")
    elif is_deep and any(_is_tensor(code, one) for one in (*copy.uses, *same)):
        edits.expression(copy.call, _clone(text))
        yield SourceRewrite(edits.apply(), f"Copy the tensor `{text}` with clone() instead of deepcopy.")


def _reads_attribute(code: ParsedFile, name: cst.Name) -> bool:
    """Whether a use of a name reads what deepcopy copies and clone does not: `.grad`, or an attribute of a caller."""
    above = code.parent(name)
    if isinstance(above, cst.Attribute) and above.value is name:
        call = code.parent(above)
        is_called = isinstance(call, cst.Call) and call.func is above
        return not is_called and above.attr.value not in TENSOR_ATTRIBUTES - {"grad"}
    asking = code.call_with(name)
    return asking is not None and dotted(asking.func) in {"getattr", "hasattr", "vars", "dir"}


def _clone(text: str) -> str:
    """Return a copy of a tensor as deepcopy makes it: a leaf, which needs gradients if the original does."""
    return f"{text}.detach().clone().requires_grad_({text}.requires_grad)"


def _is_dictionary(code: ParsedFile, name: cst.Name) -> bool:
    """Whether a use of a name reads it by a string key."""
    above = code.parent(name)
    if not isinstance(above, cst.Subscript) or above.value is not name:
        return False
    return isinstance(index_in(above), cst.SimpleString)


def _is_plain(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether a name certainly has a dictionary that its function made."""
    values = []
    if isinstance(node, cst.Name):
        values = assigned(code, node)
    return bool(values) and all(isinstance(one, cst.Dict | cst.DictComp) for one in values)


def _is_tensor(code: ParsedFile, name: cst.Name) -> bool:
    """Whether a use of a name is an operand of arithmetic, or a method that computes or changes it in place."""
    above = code.parent(name)
    if isinstance(above, cst.Attribute) and above.value is name:
        call = code.parent(above)
        method = above.attr.value
        changes = method.endswith("_") and not method.startswith("_")
        return isinstance(call, cst.Call) and call.func is above and (changes or op_of(code, call) in _COMPUTING)
    return isinstance(above, cst.BinaryOperation)


REPAIR = SourceRepair("clone_copy", "clone() instead of deepcopy", find)
