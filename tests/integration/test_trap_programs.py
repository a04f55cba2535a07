"""None of the wrong programs of the trap files is proved; run with `-m slow`, about two seconds each.

Slow, since each trap is run in eager some fifty times and compiled.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrace.inspector.facts.trial import NewText, Trial
from ctrace.inspector.features.fix.repairs.candidates import conditions_of
from ctrace.inspector.features.fix.repairs.findings import keys_of
from ctrace.inspector.features.fix.repairs.proving import Change, Prover, trial_with
from ctrace.inspector.features.fix.repairs.running import Budget, Runner, new_server
from ctrace.inspector.runs.forks.server import ForkServer
from ctrace.inspector.runs.request import Options
from ctrace.inspector.runs.target import resolve
from tests.support.traps import Trap, traps

pytestmark = [pytest.mark.integration, pytest.mark.slow]
_SECONDS = 120


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
    before, after = trap.target(), trap.target(tempting=True)
    path = tmp_path / "net.py"
    path.write_text(before)
    file = str(path)
    with Runner(resolve(file), Options(), _SECONDS, Budget(None), server) as runner:
        session = runner.capture(Trial())
        prover = Prover(runner, session)
        assert prover.why_unstable() == ""
        breaks = {key: count for key, count in keys_of(session).items() if key[0] in ("break", "recompile")}
        change = Change(trial_with([NewText(file, after)]), Counter(breaks), conditions_of(file, before, after))
        outcome = prover.attempt(change).outcome
    assert not outcome.proved, outcome.checks
