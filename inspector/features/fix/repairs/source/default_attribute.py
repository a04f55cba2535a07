"""Set an attribute once in `__init__` instead of testing on every call whether it exists.

Matches `getattr(self, "n", 0)` with a literal default, and `if not hasattr(self, "n"): self.n = ...` with a literal or
a constant tensor, in a class that derives from nn.Module alone and has an `__init__`.

Leaves alone attributes that the file accesses elsewhere by name, that the class body sets or a method deletes, classes
with `__getattr__` or `__slots__`, and values that draw random numbers or read anything that may change before the call.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.classes import after_super, initializer, is_plain_module, mentions
from ctrace.inspector.edits.syntax_code import ParsedFile, only, statement_in_function, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_number
from ctrace.inspector.edits.syntax_names import full_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_CONSTANT = frozenset({"torch.zeros", "torch.ones", "torch.arange", "torch.eye", "torch.full", "torch.tensor"})


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the attribute at a place, set in `__init__`."""
    found = statement_in_function(place)
    if found is None:
        return
    code, statement, function = found
    owner = code.owner(function)
    if owner is None or not is_plain_module(owner):
        return
    init = initializer(owner)
    # In `__init__` itself, what the test finds depends on the lines above it.
    if init is None or init is function:
        return
    if isinstance(statement, cst.If):
        yield from _lazy(code, owner, init, statement)
    for node in code.head(place.line):
        if isinstance(node, cst.Call) and full_name(code, node.func) == "getattr" and len(node.args) == 3:
            yield from _default(code, owner, init, node)


def _default(code: ParsedFile, owner: cst.ClassDef, init: cst.FunctionDef, node: cst.Call) -> Iterator[SourceRewrite]:
    subject, name, default = (arg.value for arg in node.args)
    text = _name(name)
    if code.text(subject) != "self" or not text or not _is_constant(default) or not _is_ours(code, owner, text, 1):
        return
    edits = Edits(code)
    edits.expression(node, f"self.{text}")
    if after_super(code, edits, init, f"self.{text} = {code.text(default)}"):
        yield SourceRewrite(edits.apply(), f"Set `self.{text}` in __init__ instead of a default on every call.")


def _lazy(code: ParsedFile, owner: cst.ClassDef, init: cst.FunctionDef, node: cst.If) -> Iterator[SourceRewrite]:
    """Yield an attribute that the first call sets, set in `__init__`."""
    test = node.test
    if not isinstance(test, cst.UnaryOperation) or not isinstance(test.operator, cst.Not) or node.orelse is not None:
        return
    call = test.expression
    if not isinstance(call, cst.Call) or full_name(code, call.func) != "hasattr" or len(call.args) != 2:
        return
    name = _name(call.args[1].value)
    if code.text(call.args[0].value) != "self" or not name or not _is_ours(code, owner, name, 1):
        return
    small = only(node.body)
    if not isinstance(small, cst.Assign) or [code.text(one.target) for one in small.targets] != [f"self.{name}"]:
        return
    if not _is_constant(small.value) and not _is_constant_tensor(code, small.value):
        return
    edits = Edits(code)
    edits.remove(node)
    if after_super(code, edits, init, f"self.{name} = {code.text(small.value)}"):
        yield SourceRewrite(edits.apply(), f"Set `self.{name}` in __init__ instead of in the first call.")


def _name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.SimpleString) and node.raw_value.isidentifier():
        return node.raw_value
    return ""


def _is_constant(node: cst.BaseExpression) -> bool:
    return is_number(node) or (isinstance(node, cst.Name) and node.value in {"None", "True", "False"})


def _is_constant_tensor(code: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor of literals only."""
    if not isinstance(node, cst.Call) or full_name(code, node.func) not in _CONSTANT:
        return False
    return all(arg.keyword is None and not arg.star and is_number(arg.value) for arg in node.args)


def _is_ours(code: ParsedFile, owner: cst.ClassDef, name: str, times: int) -> bool:
    """Whether only the methods of a class set an attribute, and only one place accesses it by name."""
    if mentions(code, name) != times:
        return False
    for one in owner.body.body:
        if isinstance(one, cst.FunctionDef):
            # A method or property of that name answers `hasattr`, whatever was set.
            if one.name.value in {"__getattr__", "__getattribute__", "__setattr__", name}:
                return False
        elif any(isinstance(below, cst.Name) and below.value in {name, "__slots__"} for below in walk(one)):
            return False
    return not any(isinstance(one, cst.Del) and name in code.text(one) for one in walk(code.module))


REPAIR = SourceRepair("default_attribute", "an attribute set once in __init__", find)
