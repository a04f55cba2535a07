"""Every trap is a trap, and no source repair that reads it falls for it."""

import pytest

from ctrace.inspector.repairs.model import Place
from tests.support.repaired import REPAIRS
from tests.support.traps import Trap, observed, traps

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
        place = Place("/trap.py", source, line, None, "", "", "", "")
        for repair in REPAIRS.values():
            found |= {one.source for one in repair.find(place) if one.question is None and not one.changes_arithmetic}
    return found


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in TRAPS])
def test_what_a_repair_offers_is_right_where_the_tempting_one_is_wrong(trap: Trap):
    calls = int(trap.about.get("calls", "1"))
    before = observed(trap.target(inputs="shows"), calls)
    for source in rewrites(trap):
        assert observed(source, calls) == before, source
