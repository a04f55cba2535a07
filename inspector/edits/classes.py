"""Classes as repairs see them: their `__init__`, their attributes, and whether they may be changed."""

from __future__ import annotations

from typing import cast

import libcst as cst

from ctrace.inspector.edits.syntax_code import ParsedFile, small_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import dotted, self_attribute


def is_plain_module(owner: cst.ClassDef) -> bool:
    """Whether a class derives from nn.Module only, by the name of its base, so no base class has its attributes."""
    names = [dotted(base.value) for base in owner.bases]
    return len(names) == 1 and names[0].rpartition(".")[2] == "Module" and not owner.keywords


def initializer(owner: cst.ClassDef) -> cst.FunctionDef | None:
    """Return the `__init__` of a class, if it has a block and no `return`."""
    for one in owner.body.body:
        if (
            isinstance(one, cst.FunctionDef)
            and one.name.value == "__init__"
            and isinstance(one.body, cst.IndentedBlock)
        ):
            # What is added behind a `return` may never run.
            if any(isinstance(below, cst.Return) for below in walk(one)):
                return None
            return one
    return None


def after_super(code: ParsedFile, edits: Edits, function: cst.FunctionDef, text: str) -> bool:
    """Insert statements after `super().__init__()`; False: the function has no such call in its outer block."""
    for line in cast("cst.IndentedBlock", function.body).body:
        # A module takes no buffer or parameter before (torch/nn/modules/module.py, 2.13).
        if isinstance(line, cst.SimpleStatementLine) and "super().__init__(" in code.text(line):
            edits.after(line, text)
            return True
    return False


def attribute_uses(owner: cst.ClassDef, name: str) -> list[cst.Attribute]:
    """Return every `self.name` in a class."""
    return [cast("cst.Attribute", one) for one in walk(owner) if self_attribute(one) == name]


def assigned_value(
    code: ParsedFile, function: cst.FunctionDef, name: str
) -> tuple[cst.BaseStatement, cst.BaseExpression] | None:
    """Return the one plain assignment to `self.name` at the outer level of a function."""
    found: list[tuple[cst.BaseStatement, cst.BaseExpression]] = []
    for line in cast("cst.IndentedBlock", function.body).body:
        small = small_of(line)
        if isinstance(small, cst.Assign):
            target, value = small.targets[0].target, small.value if len(small.targets) == 1 else None
        elif isinstance(small, cst.AnnAssign):
            target, value = small.target, small.value
        else:
            continue
        if value is not None and self_attribute(target) == name:
            found.append((line, value))
    if len(found) != 1:
        return None
    return found[0]


def made_in_init(code: ParsedFile, call: cst.Call) -> cst.BaseExpression | None:
    """Return what `__init__` assigns to the attribute that a method calls; None: it is not known, or no attribute."""
    name, function = self_attribute(call.func), code.function(call)
    if not name or function is None:
        return None
    owner = code.owner(function)
    if owner is None:
        return None
    init = initializer(owner)
    if init is None:
        return None
    found = assigned_value(code, init, name)
    if found is None:
        return None
    return found[1]


def mentions(code: ParsedFile, name: str) -> int:
    """Count the strings in a file that are an attribute's name, as hasattr and setattr use them."""
    return sum(isinstance(one, cst.SimpleString) and one.raw_value == name for one in walk(code.module))
