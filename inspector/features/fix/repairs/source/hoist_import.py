"""Move an import out of a function to the top of the file.

Matches an `import` at the outermost level of a function. The module then loads when the file loads, once, and the
compiled function does not run the import machinery.

Leaves alone imports in `try`, `if` or loops (they may be optional), `from __future__`, names that the file or the
function binds otherwise, and functions that rebind what they import.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.syntax_code import ParsedFile, lone_statement, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import bound, module_imports
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the import at a place at module level."""
    found = lone_statement(place)
    if found is None:
        return
    code, statement, small = found
    function = code.function(statement)
    if not isinstance(small, cst.Import | cst.ImportFrom) or function is None:
        return
    if code.parent(code.parent(statement) or statement) is not function:
        return
    if isinstance(small, cst.ImportFrom) and (isinstance(small.names, cst.ImportStar) or small.relative):
        return
    if not _is_free(code, statement, bound(small)):
        return
    edits = Edits(code)
    text = code.text(small).strip()
    edits.remove(statement)
    if not bound(small) <= set(module_imports(code)):
        edits.needs_import(text)
    yield SourceRewrite(edits.apply(), f"Move `{' '.join(text.split())}` to the top of the file.")


def _is_free(code: ParsedFile, statement: cst.CSTNode, names: set[str]) -> bool:
    """Whether nothing else in the file binds the names; the same import elsewhere does no harm."""
    for one in walk(code.module):
        if isinstance(one, cst.SimpleStatementLine) and one is not statement and names & bound(one):
            if not any(isinstance(small, cst.Import | cst.ImportFrom) for small in one.body):
                return False
            if code.text(one).strip() != code.text(statement).strip():
                return False
        elif (
            (isinstance(one, cst.Param | cst.FunctionDef | cst.ClassDef) and one.name.value in names)
            or (isinstance(one, cst.For | cst.CompFor | cst.With | cst.NamedExpr) and names & _heads(one))
            or (isinstance(one, cst.Global | cst.Nonlocal) and names & {item.name.value for item in one.names})
        ):
            return False
    return True


def _heads(node: cst.CSTNode) -> set[str]:
    """Return what the head of a compound statement or expression binds."""
    from ctrace.inspector.edits.syntax_names import targets

    if isinstance(node, cst.For | cst.CompFor | cst.NamedExpr):
        return targets(node.target)
    if isinstance(node, cst.With):
        return {name for item in node.items if item.asname for name in targets(item.asname.name)}
    return set()


REPAIR = SourceRepair("hoist_import", "an import at the top of the file", find)
