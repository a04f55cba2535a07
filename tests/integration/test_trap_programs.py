"""None of the wrong programs of the trap files is proved; run with `-m slow`, about two seconds each.

Slow, since each trap is run in eager some fifty times and compiled.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrace.inspector.features.fix.repairs.obligations import COMPILED
from ctrace.inspector.features.fix.repairs.trial_runs import new_server
from ctrace.inspector.runs.fork_client import ForkServer
from tests.support.obligation_traps import ObligationTrap, class_traps, obligation_traps
from tests.support.proofs import outcome_of
from tests.support.traps import Trap, traps

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[ForkServer]]:
    """Keep the server of this module, and close it."""
    kept: list[ForkServer] = []
    yield kept
    for each in kept:
        each.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, servers: list[ForkServer]) -> ForkServer:
    """Return the one server of this module; it serves only what runs in its own environment."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    if not servers:
        servers.append(new_server())
    return servers[0]


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in traps()])
def test_the_tempting_program_is_not_proved(
    trap: Trap, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # pytest sets it again when a test begins
    path = tmp_path / "net.py"
    path.write_text(trap.target())
    outcome = outcome_of(path, trap.target(tempting=True), server, reads=False)
    assert not outcome.proved, outcome.checks


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in obligation_traps()])
def test_an_obligation_alone_refuses_its_traps(
    trap: ObligationTrap, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    path = tmp_path / "net.py"
    path.write_text(trap.before)
    outcome = outcome_of(path, trap.after, server)
    # Compiled calls are not tried where eager ones differ, so that obligation is open then, too.
    untried = {COMPILED} - {trap.obligation}
    assert not outcome.proved or outcome.questions
    assert {each.name for each in outcome.obligations if not each.closed} - untried == {trap.obligation}


@pytest.mark.parametrize("trap", [pytest.param(trap, id=trap.id) for trap in class_traps()])
def test_no_trap_of_a_class_is_proved(
    trap: ObligationTrap, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    path = tmp_path / "net.py"
    path.write_text(trap.before)
    outcome = outcome_of(path, trap.after, server)
    assert not outcome.proved or outcome.questions
