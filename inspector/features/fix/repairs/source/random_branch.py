"""Select with torch.where instead of branching on a random number that torch draws.

Matches what `tensor_branch` does where the condition draws: `if torch.rand(()) < self.p:`. The condition draws once and
before either side, as before, and no side draws, so eager calls draw the same numbers in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.branches import branch_at, guarded_branch_at
from ctrace.inspector.edits.conditions import as_tensor
from ctrace.inspector.edits.syntax_code import code_of, walk
from ctrace.inspector.edits.syntax_names import full_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite
from ctrace.inspector.features.fix.repairs.source.tensor_branch import selected
from ctrace.inspector.knowledge.counting import words

_DRAWS = words("rand randn randint bernoulli")
"""Functions of torch that draw from its generator and change nothing else."""


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the branch at a place as torch.where."""
    code = code_of(place)
    if code is None:
        return
    statement = code.statement(place.line)
    if statement is None:
        return
    branch = branch_at(code, statement)
    if branch is not None and isinstance(branch.test, cst.BooleanOperation):
        # Python may skip one side, which would draw: only `if guard and drawn:` skips it as before.
        branch = guarded_branch_at(code, statement)
    if branch is None or isinstance(branch.test, cst.BooleanOperation):
        return
    drawing = [full_name(code, each.func) for each in walk(branch.test) if isinstance(each, cst.Call)]
    if not {f"torch.{name}" for name in _DRAWS}.intersection(drawing):
        return
    condition = as_tensor(code, branch.test, drawing=_DRAWS)
    if condition is not None:
        yield from selected(code, branch, condition)


REPAIR = SourceRepair("random_branch", "torch.where instead of a branch on a random number", find)
