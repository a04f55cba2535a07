"""Which names a piece of source reads and binds, and under which name the file knows a module."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import libcst as cst
from libcst import metadata

from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_edits import Edits


def read(node: cst.CSTNode) -> set[str]:
    """Return every name in a node, except names of attributes and keywords; bound ones count too."""
    return {one.value for one in variables(node)}


def variables(node: cst.CSTNode) -> list[cst.Name]:
    """Return every name in a node that is a variable: no name of an attribute or of a keyword."""
    skipped = {id(one.attr) for one in walk(node) if isinstance(one, cst.Attribute)}
    skipped |= {id(one.keyword) for one in walk(node) if isinstance(one, cst.Arg) and one.keyword is not None}
    return [one for one in walk(node) if isinstance(one, cst.Name) and id(one) not in skipped]


def targets(node: cst.CSTNode) -> set[str]:
    """Return the plain names that a target of an assignment binds."""
    if isinstance(node, cst.Name):
        return {node.value}
    if isinstance(node, cst.Tuple | cst.List):
        return {name for one in node.elements for name in targets(one.value)}
    return set()


def bound(node: cst.CSTNode) -> set[str]:
    """Return the names that are bound in a node, nested functions and comprehensions included."""
    found: set[str] = set()
    for one in walk(node):
        if isinstance(one, cst.AssignTarget | cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For | cst.CompFor):
            found |= targets(one.target)
        elif isinstance(one, cst.Param | cst.FunctionDef | cst.ClassDef):
            found.add(one.name.value)
        elif isinstance(one, cst.ImportAlias):
            # `import a.b` binds `a`.
            found.add(one.evaluated_alias or one.evaluated_name.split(".")[0])
        elif isinstance(one, cst.AsName):
            found |= targets(one.name)
        elif isinstance(one, cst.Del):
            found |= targets(one.target)
    return found


def parameters(function: cst.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, in order."""
    return [one.name.value for one in walk(function.params) if isinstance(one, cst.Param)]


def assigned(code: ParsedFile, name: cst.Name) -> list[cst.BaseExpression]:
    """Return all values that a local name may have, as written; empty: some are not known, as those of a parameter."""
    scope = code.scopes.get(name)
    while isinstance(scope, metadata.ComprehensionScope) and name.value not in scope.assignments:
        # A comprehension reads the names of the function around it.
        scope = scope.parent
    if not isinstance(scope, metadata.FunctionScope):
        return []
    values = []
    for one in cast("Collection[metadata.Assignment]", scope.assignments[name.value]):
        target = code.parent(one.node)
        if not isinstance(target, cst.AssignTarget):
            return []
        values.append(cast("cst.Assign", code.parent(target)).value)
    # LibCST keeps `:=` of a comprehension in the scope of the comprehension; Python, in that of the function.
    if any(one.name == name.value and isinstance(code.parent(one.node), cst.NamedExpr) for one in code.bindings):
        return []
    return values


def dotted(node: cst.CSTNode) -> str:
    """Return `a.b.c` for names and attributes; empty for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        above = dotted(node.value)
        if not above:
            return ""
        return f"{above}.{node.attr.value}"
    return ""


def full_name(code: ParsedFile, node: cst.CSTNode) -> str:
    """Return the full dotted name of an expression: `t.sum` is `torch.sum` after `import torch as t`."""
    name = dotted(node)
    head, dot, rest = name.partition(".")
    known = code.imports.get(head)
    if known:
        return f"{known}{dot}{rest}"
    return name


def module_name(code: ParsedFile, edits: Edits, module: str, usual: str = "") -> str | None:
    """Return the name of a module in the file, importing it if it is not there; None: its name means something else.

    `usual` is the name to import it under, such as `F` for torch.nn.functional.
    """
    for name, whole in code.module_imports.items():
        if whole == module:
            if name in code.bound_otherwise:
                return None
            return name
    head, dot, rest = module.partition(".")
    if dot and not usual:
        above = module_name(code, edits, head)
        if not above:
            return None
        return f"{above}.{rest}"
    # The new import stands at the top, where it would change the meaning of the name for the whole file.
    wanted = usual or module
    if wanted in code.bound_otherwise or code.imports.get(wanted, module) != module:
        return None
    line = f"import {module}"
    if usual:
        line = f"import {module} as {usual}"
    edits.needs_import(line)
    return wanted


def torch_name(code: ParsedFile, edits: Edits) -> str | None:
    """Return the name of torch in the file, importing it if it is not there."""
    return module_name(code, edits, "torch")


def fresh(code: ParsedFile, wanted: str) -> str:
    """Return a name that the file does not use."""
    used = {one.value for one in walk(code.module) if isinstance(one, cst.Name)}
    name, number = wanted, 2
    while name in used:
        name, number = f"{wanted}_{number}", number + 1
    return name


def self_attribute(node: cst.CSTNode, owner: str = "self") -> str:
    """Return `n` of `self.n`; empty for anything else."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == owner:
        return node.attr.value
    return ""


def read_by_item(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor of `tensor.item()`; None: a node is something else."""
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name(value="item")), args=[]):
            return tensor
    return None
