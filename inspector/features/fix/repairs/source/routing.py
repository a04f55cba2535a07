"""Run each expert on all tokens and keep the chosen ones, instead of gathering tokens by data-dependent indices.

Matches `out[m] = f(x[m])` where m compares the router's choice with the expert's number (`m = choice == i`), directly
or through one name. The products have different shapes, so rounding differs, and every expert computes every token.

Leaves alone other masks, and experts that get anything but the chosen tokens. `out` is still written in
place.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ctrace.inspector.edits.branches import bound_before
from ctrace.inspector.edits.selection import where
from ctrace.inspector.edits.syntax_code import ParsedFile, index_in, lone_statement, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_names import torch_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the routing at a place with all tokens for every expert."""
    found = lone_statement(place)
    if found is None:
        return
    code, statement, small = found
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or not code.in_loop(statement):
        return
    target, value = small.targets[0].target, small.value
    index = index_in(target)
    if not isinstance(target, cst.Subscript) or not isinstance(target.value, cst.Name) or index is None:
        return
    mask = _mask(code, index, statement)
    # torch.where reads `out` also where nothing is chosen.
    if mask is None or target.value.value not in bound_before(code, statement):
        return
    tokens = _expert(code, value, code.text(index))
    if tokens is None:
        return
    edits = Edits(code)
    torch = torch_name(code, edits)
    if torch is None:
        return
    out = target.value.value
    computed = f"{code.text(value.func)}({tokens})"  # type: ignore[attr-defined]
    # The mask has one element for each row, and the outputs have features behind.
    chosen = where(torch, f"({mask}).unsqueeze(-1)", computed, out)
    # In place, as the indexed store was: other names may hold the same tensor.
    edits.statement(statement, f"{out}.copy_({chosen})")
    yield SourceRewrite(
        edits.apply(),
        f"Run `{code.text(value.func)}` on all of `{tokens}` and keep the rows it is chosen for.",  # type: ignore[attr-defined]
        changes_arithmetic=True,
        question="Does every expert treat each row alone (no batch norm, no dropout)?",
    )


def _mask(code: ParsedFile, node: cst.BaseExpression, statement: cst.CSTNode) -> str | None:
    """Return the comparison behind a mask: `choice == i`, where i counts the loop."""
    if isinstance(node, cst.Name):
        for line in reversed(code.above(statement)):
            small = None
            if isinstance(line, cst.SimpleStatementLine):
                small = line.body[0]
            if isinstance(small, cst.Assign) and code.text(small.targets[0].target) == node.value:
                if not _mask(code, small.value, line):
                    return None
                return node.value
        return None
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1 or not isinstance(node.left, cst.Name):
        return None
    target = node.comparisons[0]
    loop = code.around(statement, cst.For)
    counted = loop is not None and isinstance(target.comparator, cst.Name)
    if not isinstance(target.operator, cst.Equal) or not counted or loop is None:
        return None
    # `for i, expert in enumerate(self.experts)` binds two names.
    names = {one.value for one in walk(loop.target) if isinstance(one, cst.Name)}
    if code.text(target.comparator) not in names:
        return None
    return code.text(node)


def _expert(code: ParsedFile, node: cst.BaseExpression, index: str) -> str | None:
    """Return the tokens of `expert(tokens[m])`."""
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].keyword or node.args[0].star:
        return None
    chosen = node.args[0].value
    part = index_in(chosen)
    if not isinstance(chosen, cst.Subscript) or not isinstance(chosen.value, cst.Name) or part is None:
        return None
    if code.text(part) != index:
        return None
    return chosen.value.value


REPAIR = SourceRepair("routing", "experts on all tokens instead of gathered ones", find)
