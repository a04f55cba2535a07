"""Replace a loop whose end depends on a tensor by a fixed number of rounds; values stay once it would have ended.

Matches `while test:` on tensors whose block assigns names that have a value already, also with a counter beside it
(`while error > tol and step < 50:`), which is then the bound; without a counter, the author has to choose one.

Leaves alone blocks that do more than compute new values, names that are changed in place or whose first tensor escapes,
counters that are read elsewhere, and ops whose gradient may be infinite or NaN, since all rounds are computed.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from msgspec import Struct

from ctrace.inspector.edits.branches import bound_before
from ctrace.inspector.edits.conditions import as_tensor
from ctrace.inspector.edits.selection import where
from ctrace.inspector.edits.shared_names import escaping
from ctrace.inspector.edits.syntax_code import ParsedFile, assignment_of, small_of, statement_in_function
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_literal, is_pure, is_smooth
from ctrace.inspector.edits.syntax_names import fresh, parameters, read, torch_name, variables
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_ROUNDS = 100
"""The first bound to try, if the code has none."""
_FEW_ROUNDS = 8
"""As many rounds may be made in vain: a few ops on small tensors cost no more than what is around them. Where there are
more, a call whose loop ends at once takes many times as long, which the times of the scenarios do not show."""


class _Counted(Struct, frozen=True):
    """A counter beside the test: its name, the statement that starts it at zero, and the text of its bound."""

    name: str
    start: object
    bound: str


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the loop at a place with a fixed number of rounds."""
    found = statement_in_function(place)
    if found is None:
        return
    code, loop, _ = found
    if not isinstance(loop, cst.While) or loop.orelse is not None:
        return
    test, counted = _split(code, loop)
    condition = as_tensor(code, test)
    counter, bound = "", ""
    if counted is not None:
        counter, bound = counted.name, counted.bound
    body = _assignments(code, loop, counter)
    if condition is None or body is None:
        return
    names = {name for name, _ in body}
    # A test that reads no name of the block never changes, so the loop ends in the first round or not at all.
    if not names <= bound_before(code, loop) or not names & read(test) or _escapes(code, loop, names):
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    going, rounds = fresh(code, "going"), fresh(code, "MOST_ROUNDS")
    lines = [f"for _ in range({bound or rounds}):", f"    {going} = {condition}"]
    # In the order of the block, as a value may read a name above it; the test was computed before all of them.
    lines += [f"    {name} = {where(torch, going, code.text(value), name)}" for name, value in body]
    if counted is None:
        lines.insert(0, f"{rounds} = {_ROUNDS}")
    edits.statement(loop, "\n".join(lines))
    if counted is not None and isinstance(counted.start, cst.SimpleStatementLine):
        edits.remove(counted.start)
    if counted is None:
        times, costs = f"{_ROUNDS} times", ""
        question = f"At most how many rounds does the loop on `{code.text(test)}` need? {_ROUNDS} here."
    else:
        times, costs, question = "up to its bound", _asked_costs(bound), None
    summary = f"Run the loop on `{code.text(test)}` {times}, with a mask."
    yield SourceRewrite(edits.apply(), summary, question=question, needs_inputs=(code.text(test),), costs=costs)


def _asked_costs(bound: str) -> str:
    """Ask whether each call may run all rounds of a loop; empty if they are few."""
    if bound.isdigit() and int(bound) <= _FEW_ROUNDS:
        return ""
    return f"May each call run all {bound} rounds, where its loop ended early?"


def _split(code: ParsedFile, loop: cst.While) -> tuple[cst.BaseExpression, _Counted | None]:
    """Return the test on tensors, and the counter beside it."""
    test = loop.test
    if not isinstance(test, cst.BooleanOperation) or not isinstance(test.operator, cst.And):
        return test, None
    for mine, other in ((test.left, test.right), (test.right, test.left)):
        counted = _counter(code, loop, mine)
        if counted is not None:
            return other, counted
    return test, None


def _counter(code: ParsedFile, loop: cst.While, test: cst.BaseExpression) -> _Counted | None:
    """Return the counter of `i < bound`, if it starts at zero above the loop, and only the loop reads it."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not isinstance(test.left, cst.Name):
        return None
    target, name = test.comparisons[0], test.left.value
    if not isinstance(target.operator, cst.LessThan) or not isinstance(target.comparator, cst.Integer | cst.Name):
        return None
    starts = [
        line
        for line in code.above(loop)
        if isinstance(line, cst.SimpleStatementLine) and code.text(line).strip().replace(" ", "") == f"{name}=0"
    ]
    function = code.function(loop)
    uses = []
    if function:
        uses = [one for one in variables(function) if one.value == name]
    steps = [line for line in loop.body.body if _is_step(code, line, name)]
    # Its start, its test and its step; `i = i + 1` has it twice.
    expected = 3 if steps and isinstance(small_of(steps[0]), cst.AugAssign) else 4
    if len(starts) != 1 or len(steps) != 1 or len(uses) != expected:
        return None
    return _Counted(name, starts[0], code.text(target.comparator))


def _is_step(code: ParsedFile, line: cst.CSTNode, name: str) -> bool:
    small = small_of(line)
    text = ""
    if small is not None:
        text = code.text(small).replace(" ", "")
    return text in {f"{name}+=1", f"{name}={name}+1"}


def _assignments(code: ParsedFile, loop: cst.While, counter: str) -> list[tuple[str, cst.BaseExpression]] | None:
    """Return what the block of a loop assigns, in order; None: it does something else."""
    found = []
    for line in loop.body.body:
        if counter and _is_step(code, line, counter):
            continue
        assignment = assignment_of(small_of(line))
        if assignment is None:
            return None
        name, value = assignment
        if is_literal(value) or counter in read(value) or not is_pure(code, value) or not is_smooth(code, value):
            return None
        found.append((name.value, value))
    return found or None


def _escapes(code: ParsedFile, loop: cst.While, names: set[str]) -> bool:
    """Whether code may see the very tensor that a name had before the loop, if no round runs."""
    function = code.function(loop)
    assert function is not None
    shown = names & escaping(code, loop)
    # Without a round, the name holds the caller's tensor, and torch.where returns a new one.
    if shown & set(parameters(function)):
        return True
    for line in code.above(loop):
        small = small_of(line)
        if not isinstance(small, cst.Assign) or not isinstance(small.value, cst.Name | cst.Attribute | cst.Subscript):
            continue
        if any(isinstance(one.target, cst.Name) and one.target.value in shown for one in small.targets):
            return True
    return False


REPAIR = SourceRepair("bounded_loop", "a fixed number of rounds with a mask", find)
