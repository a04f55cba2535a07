"""Print, log and warn in eager only: guard the statement by `if not torch.compiler.is_compiling():`.

Matches a statement that is one call of print, warnings.warn or a logger, and an `if` on a tensor whose block is
nothing but such calls. Eager prints what it printed before; compiled code leaves it out, which the author has to allow.

Leaves alone calls with arguments that may do more than compute a value: otherwise work would be left out, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.features.fix.repairs.syntax.printed_output import is_output, output_name
from ctrace.inspector.features.fix.repairs.syntax.syntax_code import code_of
from ctrace.inspector.features.fix.repairs.syntax.syntax_edits import Edits
from ctrace.inspector.features.fix.repairs.syntax.syntax_effects import is_pure
from ctrace.inspector.features.fix.repairs.syntax.syntax_names import torch_name

if TYPE_CHECKING:
    import libcst as cst

    from ctrace.inspector.features.fix.repairs.syntax.syntax_code import ParsedFile

_ITEM = frozenset({"item"})


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the output at a place, guarded."""
    import libcst as cst

    code = code_of(place)
    statement = code.statement(place.line) if code is not None else None
    if code is None or statement is None or code.function(statement) is None:
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    guard = f"not {torch}.compiler.is_compiling()"
    if isinstance(statement, cst.SimpleStatementLine) and is_output(code, statement):
        name = _called(code, statement)
        bare = code.text(statement.with_changes(leading_lines=[])).strip()
        edits.statement(statement, f"if {guard}:\n    {bare}")
    elif isinstance(statement, cst.If) and _only_output(code, statement):
        name = _called(code, statement.body.body[0])
        test = code.text(statement.test)
        whole = f"({test})" if isinstance(statement.test, cst.BooleanOperation | cst.NamedExpr) else test
        edits.expression(statement.test, f"{guard} and {whole}")
    else:
        return
    question = f"May compiled code leave out `{name}`?"
    yield SourceRewrite(edits.apply(), f"Call `{name}` in eager only.", question=question)


def _called(code: ParsedFile, statement: cst.CSTNode) -> str:
    import libcst as cst

    assert isinstance(statement, cst.SimpleStatementLine)
    small = statement.body[0]
    assert isinstance(small, cst.Expr)
    assert isinstance(small.value, cst.Call)
    return output_name(code, small.value)


def _only_output(code: ParsedFile, node: cst.If) -> bool:
    import libcst as cst

    if node.orelse is not None or not isinstance(node.body, cst.IndentedBlock):
        return False
    return is_pure(code, node.test, extra=_ITEM) and all(is_output(code, one) for one in node.body.body)


REPAIR = SourceRepair("output_guard", "prints, logs and warnings in eager only", find)
