"""Move an import out of a function to the top of the file.

Matches an `import` at the outermost level of a function. The module then loads when the file loads, once, and the
compiled function does not run the import machinery.

Leaves alone imports in `try`, `if` or loops (they may be optional), `from __future__`, names that the file or the
function binds otherwise, and functions that rebind what they import.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.syntax_code import ParsedFile, lone_statement
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import bound
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
    # Inside of an `if` or `try`, the import may be meant for some calls or some installations only.
    if code.parent(code.parent(statement) or statement) is not function:
        return
    if isinstance(small, cst.ImportFrom) and (isinstance(small.names, cst.ImportStar) or small.relative):
        return
    text = code.text(small).strip()
    if not _is_free(code, text, bound(small)):
        return
    edits = Edits(code)
    edits.remove(statement)
    # The file may import it at the top already.
    if not bound(small) <= set(code.module_imports):
        edits.needs_import(text)
    yield SourceRewrite(edits.apply(), f"Move `{' '.join(text.split())}` to the top of the file.")


def _is_free(code: ParsedFile, text: str, names: set[str]) -> bool:
    """Whether nothing else in the file binds the names; the same import elsewhere does no harm."""
    others = [one.node for one in code.bindings if one.name in names]
    return all(isinstance(one, cst.Import | cst.ImportFrom) and code.text(one).strip() == text for one in others)


REPAIR = SourceRepair("hoist_import", "an import at the top of the file", find)
