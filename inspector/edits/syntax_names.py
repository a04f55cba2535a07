"""Which names a piece of source reads and binds, and under which name the file knows a module."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

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
    function = code.function(name)
    if function is None or name.value in parameters(function):
        return []
    values = []
    for one in walk(function):
        if isinstance(one, cst.Assign) and any(name.value in targets(each.target) for each in one.targets):
            if not all(isinstance(each.target, cst.Name) for each in one.targets):
                return []
            values.append(one.value)
        elif isinstance(one, cst.Global | cst.Nonlocal) or (
            isinstance(one, cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For | cst.CompFor | cst.AsName)
            and name.value in bound(one)
        ):
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
    known = imported(code).get(head)
    if known:
        return f"{known}{dot}{rest}"
    return name


def imported(code: ParsedFile) -> dict[str, str]:
    """Return what the imports of a file bind, as dotted names; without names that are also bound in another way."""
    if code.imports is None:
        taken = _bound_otherwise(code)
        code.imports = {name: whole for name, whole in _all_imports(code) if name not in taken}
    return code.imports


def _all_imports(code: ParsedFile) -> Iterator[tuple[str, str]]:
    for one in walk(code.module):
        if isinstance(one, cst.Import | cst.ImportFrom):
            yield from _bindings(one)


def _bindings(node: cst.Import | cst.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, and what they are."""
    if isinstance(node, cst.Import):
        for alias in node.names:
            whole, name = alias.evaluated_name, alias.evaluated_alias
            first = whole.split(".")[0]
            yield (name, whole) if name else (first, first)  # `import a.b` binds `a`
    elif not isinstance(node.names, cst.ImportStar) and not node.relative and node.module:
        for alias in node.names:
            yield alias.evaluated_alias or alias.evaluated_name, f"{dotted(node.module)}.{alias.evaluated_name}"


def _bound_otherwise(code: ParsedFile) -> set[str]:
    """Return the names that a file binds other than by import."""
    if code.bound is None:
        code.bound = {name for one in walk(code.module) for name in _bound_by(one)}
    return code.bound


def _bound_by(node: cst.CSTNode) -> set[str]:
    if isinstance(node, cst.AssignTarget | cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For | cst.CompFor):
        return targets(node.target)
    if not isinstance(node, cst.Param | cst.FunctionDef | cst.ClassDef):
        return set()
    return {node.name.value}


def module_name(code: ParsedFile, edits: Edits, module: str, usual: str = "") -> str | None:
    """Return the name of a module in the file, importing it if it is not there; None: its name means something else.

    `usual` is the name to import it under, such as `F` for torch.nn.functional.
    """
    for name, whole in module_imports(code).items():
        if whole == module:
            if name in _bound_otherwise(code):
                return None
            return name
    head, dot, rest = module.partition(".")
    if dot and not usual:
        above = module_name(code, edits, head)
        if not above:
            return None
        return f"{above}.{rest}"
    wanted = usual or module
    if wanted in _bound_otherwise(code) or imported(code).get(wanted, module) != module:
        return None
    line = f"import {module}"
    if usual:
        line = f"import {module} as {usual}"
    edits.needs_import(line)
    return wanted


def module_imports(code: ParsedFile) -> dict[str, str]:
    """Return what the imports at module level bind."""
    return {
        name: whole
        for line in code.module.body
        if isinstance(line, cst.SimpleStatementLine)
        for one in line.body
        if isinstance(one, cst.Import | cst.ImportFrom)
        for name, whole in _bindings(one)
    }


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
