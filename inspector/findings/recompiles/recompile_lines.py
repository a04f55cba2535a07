"""Find the line of the user's code that specialized on a value that changed.

Torch may guard a constant later than where the user reads it. From torch 2.14 on, Dynamo traces arithmetic on an int,
float or bool without a guard, and creates the guard where the result meets a tensor or a branch (_dynamo/variables/
lazy.py, `ComputedLazyConstantVariable`). Users expect the line that reads the value: for `STEP += 1` and
`return x * STEP`, the first of the two.
"""

import ast
import re

from msgspec.structs import replace

from ctrace.inspector.facts.events.guard_events import UnmetGuard
from ctrace.inspector.facts.findings import TENSOR_CAUSES, Cause, CauseKind, Frame
from ctrace.inspector.facts.shape_facts import ConditionKind
from ctrace.inspector.findings.functions import FunctionPlace
from ctrace.inspector.findings.guards.failed_guard_text import sources_of
from ctrace.inspector.findings.shapes.symbols import FixedSize, Symbols
from ctrace.inspector.knowledge.versions.version_differences import DEFERRED_CONSTANTS
from ctrace.inspector.log.raw import Raw
from ctrace.inspector.source.owners import user_frame
from ctrace.inspector.source.source_names import user_name
from ctrace.inspector.source.text import parsed


def fixing(raw: Raw, nearest: str, compile_id: str, cause: Cause, guard: UnmetGuard) -> FixedSize | None:
    """Find the user's line that specialized on a size or number, in the nearest cache entry or in the new graph."""
    sources = sources_of(guard.text)
    if cause.kind in (CauseKind.RANGE, CauseKind.ZERO_ONE) and len(sources) > 0:
        symbols = Symbols(raw, nearest)
        found = _condition(symbols, tuple(map(symbols.source_of, sources)), cause, guard)
        return found if cause.kind is CauseKind.RANGE else None
    if not sources:
        return None
    known = (Symbols(raw, each) for each in (nearest, compile_id))
    before, after = (each.fixed(each.source_of(sources[0])) for each in known)
    return before or (after if after and after.kind is not ConditionKind.CONDITION and after.frame else None)


def _condition(symbols: Symbols, sources: tuple[str, ...], cause: Cause, guard: UnmetGuard) -> FixedSize | None:
    """Find the condition that the call violates: by its text, or by bounds that the new value exceeds."""
    conditions = [each for source in sources for each in symbols.conditions(source) if each.frame is not None]
    text = _folded(user_name(guard.text))
    same_text = [each for each in conditions if _folded(each.condition) == text]
    outside = [each for each in conditions if _is_outside(each, cause.now)]
    unbounded = [each for each in conditions if each.low is None and each.high is None]
    return next(iter([*same_text, *outside, *unbounded]), None)


def _folded(condition: str) -> str:
    return re.sub(r"[\s()]", "", condition)


def _is_outside(condition: FixedSize, value: str | None) -> bool:
    number = int(value) if value and re.fullmatch(r"-?\d+", value) else None
    if number is None:
        return False
    return (condition.low is not None and number < condition.low) or (
        condition.high is not None and number > condition.high
    )


def placed(cause: Cause, guard: UnmetGuard, fixed: FixedSize | None, place: FunctionPlace, raw: Raw) -> Cause:
    """Add the line that specialized on the value; for the result of a call that broke, add the line of that call."""
    if cause.kind is CauseKind.BREAK_RESULT and place.resumes_at:
        return replace(cause, line=place.resumes_at, file=place.file)
    # Torch creates the guards of a tensor at its first use; that line did not specialize on the property.
    by_use = None if cause.kind in TENSOR_CAUSES else user_frame(guard.stack, raw.prefixes)
    if by_use is not None:
        torch, text = str(raw.environment.get("torch", "")), raw.listings.get(by_use.file, "")
        by_use = first_computed(cause, by_use, torch, text)
    frame = by_use or (fixed.frame if fixed else None)
    if frame is None:
        return cause
    return replace(cause, line=frame.line, file=frame.file)


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
