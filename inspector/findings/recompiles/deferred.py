"""Find the line that first computes with a constant, if torch guards the constant later, where it uses the result. From
torch 2.14 on, Dynamo traces arithmetic on an int, float or bool without a guard. It creates the guard where the result
meets a tensor or a branch (_dynamo/variables/lazy.py, `ComputedLazyConstantVariable`). Users expect the line that reads
the value: for `STEP += 1` and `return x * STEP`, the first of the two.
"""

import ast

from ctrace.inspector.facts.findings import Cause, CauseKind, Frame
from ctrace.inspector.knowledge.versions.differences import DEFERRED_CONSTANTS
from ctrace.inspector.source.text import parsed

_VALUES = frozenset(
    (CauseKind.ARGUMENT_VALUE, CauseKind.ATTRIBUTE_VALUE, CauseKind.GLOBAL_VALUE, CauseKind.CLOSURE_VALUE)
)
_CALLS = frozenset(("min", "max", "abs"))
"""Builtins whose guards torch defers, like those of operators (_dynamo/variables/builtin.py, 2.15)."""


def first_computed(cause: Cause, guarded_at: Frame, torch: str, text: str) -> Frame:
    """Return the function's first line that computes with the value; `guarded_at` if no earlier line does."""
    if cause.kind not in _VALUES or not DEFERRED_CONSTANTS.holds(torch):
        return guarded_at
    function = _function_at(text, guarded_at.line)
    if function is None:
        return guarded_at
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.expr | ast.stmt)]
    lines = [node.lineno for node in nodes if cause.subject in _operands(node)]
    first = min(lines, default=guarded_at.line)
    if first >= guarded_at.line:
        return guarded_at
    return Frame(guarded_at.file, first, guarded_at.function, text.splitlines()[first - 1].strip())


def _function_at(text: str, line: int) -> ast.AST | None:
    """Return the innermost function around a line."""
    tree = parsed(text)
    found = [
        node
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def _operands(node: ast.AST) -> list[str]:
    """Return the names of the values that an operation computes with."""
    operands: list[ast.expr] = []
    match node:
        case ast.AugAssign(target=target, value=value):
            operands = [target, value]
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.UnaryOp(operand=operand):
            operands = [operand]
        case ast.Compare(left=left, comparators=others):
            operands = [left, *others]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            operands = args
    return [ast.unparse(each) for each in operands if isinstance(each, ast.Name | ast.Attribute)]
