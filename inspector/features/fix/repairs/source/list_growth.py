"""Let a list that grows on a module grow in eager only.

Matches `self.history.append(...)` where nothing else in the class reads the list, except its assignment: torch.compile
guards on the length, so each call compiles again. Compiled code leaves it out, which the author has to allow.

Leaves alone lists that the class reads, and values whose computation may have effects.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.syntax_code import ParsedFile, statement_in_function, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_pure
from ctrace.inspector.edits.syntax_names import self_attribute, torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_READS = frozenset({"item", "detach", "cpu", "tolist"})


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the growth of a list at a place, guarded."""
    found = statement_in_function(place)
    if found is None:
        return
    code, first, function = found
    # All of the function, as a finding that names the list may be at another line than the `append`.
    for statement in walk(function):
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            continue
        name = _grown(code, statement.body[0])
        owner = code.owner(function)
        if not name or owner is None or (statement is not first and name not in place.names):
            continue
        if _is_read(code, owner, name):
            continue
        edits = Edits(code)
        torch = torch_name(code, edits)
        if torch is None:
            return
        edits.in_eager(statement, torch)
        question = f"May compiled code leave `self.{name}` as it is?"
        yield SourceRewrite(edits.apply(), f"Append to `self.{name}` in eager only.", question=question)


def _grown(code: ParsedFile, node: cst.CSTNode) -> str:
    """Return the attribute that a statement appends to."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return ""
    call = node.value
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "append" or len(call.args) != 1:
        return ""
    if not is_pure(code, call.args[0].value, extra=_READS):
        return ""
    return self_attribute(call.func.value)


def _is_read(code: ParsedFile, owner: cst.ClassDef, name: str) -> bool:
    """Whether a class uses an attribute for anything but assigning a new list and appending."""
    for one in walk(owner):
        if self_attribute(one) != name:
            continue
        above = code.parent(one)
        appended = isinstance(above, cst.Attribute) and above.attr.value in {"append", "clear"}
        if not appended and not isinstance(above, cst.AssignTarget | cst.AnnAssign):
            return True
    return False


REPAIR = SourceRepair("list_growth", "no list that grows in compiled code", find)
