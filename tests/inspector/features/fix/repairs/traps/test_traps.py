"""Every trap is a trap, and no source repair that reads it falls for it."""

import pytest

from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace
from tests.support.repaired import REPAIRS
from tests.support.traps import Trap, observed, traps

pytestmark = pytest.mark.thorough

TRAPS = traps()


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in TRAPS])
def test_the_tempting_program_is_wrong(trap: Trap):
    calls = int(trap.about.get("calls", "1"))
    before = observed(trap.target(inputs="shows"), calls)
    assert before == observed(trap.target(inputs="shows"), calls), "not the same twice"
    assert before != observed(trap.target(tempting=True, inputs="shows"), calls)


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in TRAPS])
def test_the_program_runs_with_the_inputs_of_its_target(trap: Trap):
    assert observed(trap.target(inputs="inputs"))


def test_there_are_two_hundred():
    assert len({trap.id for trap in TRAPS}) == len(TRAPS) >= 200


def rewrites(trap: Trap) -> set[str]:
    """Return what all source repairs make of a trap, at any of its lines; those that ask a question are left out."""
    source = trap.target(inputs="shows")
    found = set()
    first = source[: source.index(trap.program)].count("\n") + 1
    for line in range(first, first + trap.program.count("\n")):
        place = RepairPlace("/trap.py", source, line, "")
        for repair in REPAIRS.values():
            found |= {one.source for one in repair.find(place) if one.question is None and not one.changes_arithmetic}
    return found


LEFT_TO_THE_PROOF = {
    "conditions: a condition of many elements": "only the text of the error differs",
    "dtype: true division of integers": "right for floats",
    "dtype: a float factor of integers": "right for floats",
    "exceptions: an argument that is None": "the text does not say that it may be",
    "gradients: an argument that one side does not use": "right without gradients",
    "gradients: a side that needs no gradient": "right without gradients",
    "gradients: a parameter that one side does not use": "right without gradients",
    "gradients: a parameter that only one side uses": "right without gradients",
    "hoisting: a dictionary in which a tensor is twice": "right if no tensor is twice in it",
    "hoisting: an expanded tensor": "right for tensors that fill their memory",
    "scalars: an integer number beside uint8": "right for floats",
}
"""Where reading cannot tell: a repair offers what is wrong for this call, and the proof has to find that."""


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in TRAPS])
def test_what_a_repair_offers_is_right_where_the_tempting_one_is_wrong(trap: Trap):
    calls = int(trap.about.get("calls", "1"))
    before = observed(trap.target(inputs="shows"), calls)
    wrong = [source for source in rewrites(trap) if observed(source, calls) != before]
    assert bool(wrong) == (trap.id in LEFT_TO_THE_PROOF), wrong
