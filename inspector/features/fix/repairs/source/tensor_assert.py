"""Check a tensor's values without reading them into Python.

Matches `assert t.sum().item() > 0` (the number is compared as a tensor, which torch.compile turns into an assertion in
the graph, with an exception of another type, which the author has to allow) and `if t.isnan().any(): raise ...`, which
is guarded by `if not torch.compiler.is_compiling()`: eager raises what it raised before; compiled code does not check,
which the author has to allow.

Leaves alone tests that do more than compute a value, and an `if` with an `else` or with anything beside the `raise`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.diagnosis.rules.value_rules import ASSERTS
from ctrace.inspector.edits.conditions import as_tensor, operand_text
from ctrace.inspector.edits.eager_only import tested
from ctrace.inspector.edits.syntax_code import ParsedFile, only, statement_in_function, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_pure
from ctrace.inspector.edits.syntax_names import torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_ITEM = frozenset({"item", "tolist"})


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the check at a place for compiled code."""
    found = statement_in_function(place)
    if found is None:
        return
    code, statement, _ = found
    if isinstance(statement, cst.If) and _only_raises(statement):
        yield from _guarded(code, statement)
    elif isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.Assert):
            yield from _asserted(code, statement, small)


def _only_raises(node: cst.If) -> bool:
    """Whether the block of an `if` is one `raise`, and there is no `else`."""
    return node.orelse is None and isinstance(only(node.body), cst.Raise)


def _is_of_tensors(code: ParsedFile, test: cst.BaseExpression) -> bool:
    """Whether a test may depend on a tensor's value: it compares, or it reads a number."""
    reads = any(isinstance(one, cst.Attribute) and one.attr.value in _ITEM for one in walk(test))
    return reads or as_tensor(code, test) is not None


def _guarded(code: ParsedFile, node: cst.If) -> Iterator[SourceRewrite]:
    if not is_pure(code, node.test, extra=_ITEM) or not _is_of_tensors(code, node.test):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    test = code.text(node.test)
    edits.expression(node.test, tested(torch, operand_text(code, node.test)))
    yield SourceRewrite(
        edits.apply(),
        f"Check `{test}` in eager only.",
        question=f"May compiled code go on without the check of `{test}`?",
        needs_inputs=(test,),
    )


def _asserted(code: ParsedFile, statement: cst.SimpleStatementLine, node: cst.Assert) -> Iterator[SourceRewrite]:
    text = code.text(node.test)
    condition = as_tensor(code, node.test)
    # Without `.item()`, the assertion is on a tensor already, which Dynamo turns into one of the graph.
    if condition is not None and ".item()" in text and ".item()" not in condition:
        edits = Edits(code)
        edits.expression(node.test, condition)
        summary = f"Assert `{condition}` on the tensor itself."
        yield SourceRewrite(edits.apply(), summary, question=ASSERTS, needs_inputs=(text,))
    if not is_pure(code, node.test, extra=_ITEM) or not _is_of_tensors(code, node.test):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is not None:
        edits.in_eager(statement, torch)
        question = f"May compiled code go on without the assertion of `{text}`?"
        yield SourceRewrite(edits.apply(), f"Assert `{text}` in eager only.", question=question, needs_inputs=(text,))


REPAIR = SourceRepair("tensor_assert", "checks of tensors that compile", find)
