"""Print, log and warn in eager only: guard the statement by `if not torch.compiler.is_compiling():`.

Matches a statement that is one call of print, warnings.warn or a logger, and an `if` on a tensor whose block is
nothing but such calls. Eager prints what it printed before; compiled code leaves it out, which the author has to allow.

Leaves alone calls with arguments that may do more than compute a value: otherwise work would be left out, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.conditions import operand_text
from ctrace.inspector.edits.eager_only import tested
from ctrace.inspector.edits.syntax_code import ParsedFile, small_of, statement_in_function, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_pure
from ctrace.inspector.edits.syntax_names import dotted, full_name, torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.knowledge.counting import words
from ctrace.inspector.source.output_functions import output_kind

_READS = words("item tolist numpy cpu detach format join str repr round type get_device_name")
_ITEM = frozenset({"item"})


def _is_output(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether a statement is one call that prints, logs or warns, with arguments that only compute values."""
    small = small_of(node)
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    call = small.value
    return _output_name(code, call) != "" and all(_is_readable(code, arg.value) for arg in call.args)


def _output_name(code: ParsedFile, call: cst.Call) -> str:
    """Return the function that prints, logs or warns; empty: the call is something else."""
    written = " ".join(code.text(call.func).split())
    if output_kind(full_name(code, call.func) or written):
        return written
    return ""


def _is_readable(code: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether an argument only computes a value or a text."""
    for one in walk(node):
        if isinstance(one, cst.FormattedString):
            return all(
                _is_readable(code, part.expression)
                for part in one.parts
                if isinstance(part, cst.FormattedStringExpression)
            )
        if isinstance(one, cst.Call):
            if isinstance(one.func, cst.Attribute):
                name = one.func.attr.value
            else:
                name = dotted(one.func)
            if name in _READS:
                continue
        if isinstance(one, cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda | cst.BaseComp):
            return False
    return is_pure(code, node, extra=_READS) or _only_reads(code, node)


def _only_reads(code: ParsedFile, node: cst.CSTNode) -> bool:
    calls = [one for one in walk(node) if isinstance(one, cst.Call)]
    return all(
        dotted(one.func) in _READS or is_pure(code, one, extra=_READS)
        for one in calls
        if not any(one is below for other in calls if other is not one for below in walk(other))
    )


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the output at a place, guarded."""
    found = statement_in_function(place)
    if found is None:
        return
    code, statement, _ = found
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    if isinstance(statement, cst.SimpleStatementLine) and _is_output(code, statement):
        name = _called(code, statement)
        edits.in_eager(statement, torch)
    elif isinstance(statement, cst.If) and _only_output(code, statement):
        name = _called(code, statement.body.body[0])
        # In the test and not in the block, since the test itself reads the tensor.
        edits.expression(statement.test, tested(torch, operand_text(code, statement.test)))
    else:
        return
    question = f"May compiled code leave out `{name}`?"
    yield SourceRewrite(edits.apply(), f"Call `{name}` in eager only.", question=question)


def _called(code: ParsedFile, statement: cst.CSTNode) -> str:
    assert isinstance(statement, cst.SimpleStatementLine)
    small = statement.body[0]
    assert isinstance(small, cst.Expr)
    assert isinstance(small.value, cst.Call)
    return _output_name(code, small.value)


def _only_output(code: ParsedFile, node: cst.If) -> bool:
    if node.orelse is not None or not isinstance(node.body, cst.IndentedBlock):
        return False
    return is_pure(code, node.test, extra=_ITEM) and all(_is_output(code, one) for one in node.body.body)


REPAIR = SourceRepair("output_guard", "prints, logs and warnings in eager only", find)
