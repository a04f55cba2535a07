"""Do without `copy.deepcopy` where the copy is only read.

Matches `c = copy.deepcopy(E)` where E is a name or an attribute and the function only reads `c.a` and `c[0]`: then the
original works as well.

Leaves alone copies that are called (a copied module has parameters of its own, which get the gradients), passed on,
returned, stored, changed or compared by identity, and originals that the function changes or rebinds, itself or by a
call that may.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.classes import made_in_init
from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_pure_call
from ctrace.inspector.edits.syntax_names import bound, dotted, full_name, read
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.features.fix.repairs.source.clone_copy import copy_at


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the deep copy at a place without the copy."""
    copy = copy_at(place)
    if copy is None or copy.kind != "copy.deepcopy":
        return
    code, original = copy.code, copy.original
    if _changes(code, copy.function, read(original), dotted(original), copy.statement):
        return
    edits = Edits(code)
    if copy.uses and all(_only_reads(code, one) for one in copy.uses):
        edits.expression(copy.call, code.text(original))
        yield SourceRewrite(edits.apply(), f"Read `{code.text(original)}` itself: its copy is never changed.")


def _changes(code: ParsedFile, function: cst.FunctionDef, names: set[str], whole: str, here: cst.CSTNode) -> bool:
    """Whether a function writes to the original, or rebinds it, or calls its methods."""
    for one in walk(function):
        if isinstance(one, cst.AssignTarget | cst.AugAssign | cst.AnnAssign):
            text = code.text(one.target)
            if text == whole or text.startswith((f"{whole}.", f"{whole}[")):
                return True
        elif (
            (isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute) and dotted(one.func.value) == whole)
            or (
                isinstance(one, cst.SimpleStatementLine) and one is not here and "." not in whole and names & bound(one)
            )
            or isinstance(one, cst.Global | cst.Nonlocal | cst.Del)
            or (isinstance(one, cst.Call) and _may_write(code, one, here))
        ):
            return True
    return False


def _may_write(code: ParsedFile, call: cst.Call, here: cst.CSTNode) -> bool:
    """Whether a call may change the original: a method of the class, or any function that is not known."""
    # The statement of the copy: deepcopy only reads what it copies.
    if code.around(call, type(here)) is here:
        return False
    if is_pure_call(code, call):
        return False
    made = made_in_init(code, call)
    # A submodule knows neither this module nor what it keeps.
    return made is None or not full_name(code, getattr(made, "func", made)).startswith("torch.nn.")


def _only_reads(code: ParsedFile, name: cst.Name) -> bool:
    """Whether a use of a name reads a plain attribute or an element, and the value goes into arithmetic or a test."""
    above = code.parent(name)
    if not isinstance(above, cst.Attribute | cst.Subscript) or above.value is not name:
        return False
    beyond = code.parent(above)
    if isinstance(beyond, cst.UnaryOperation):
        return isinstance(beyond.operator, cst.Minus | cst.Not)  # `+t` is t itself
    return isinstance(beyond, cst.BinaryOperation | cst.Comparison | cst.ComparisonTarget)


REPAIR = SourceRepair("drop_copy", "no deepcopy in the compiled function", find)
