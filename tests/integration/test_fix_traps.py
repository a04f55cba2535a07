"""A repair that is wrong is never proved, whatever wrote it; one that is right is."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.trial import NewText, Trial
from ctrace.inspector.features.fix.repairs.candidates import conditions_of
from ctrace.inspector.features.fix.repairs.proving import ChangeToProve, Prover, keys_of, trial_with
from ctrace.inspector.features.fix.repairs.repair_result import ProofOutcome
from ctrace.inspector.features.fix.repairs.trial_runs import Runner, SearchBudget, new_server
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.target import resolve
from tests.integration.repair_traps import RIGHT, TRAPS, Trap

pytestmark = pytest.mark.integration


QUICK = ("dtype", "alias", "print", "kept_in_a_tuple", "unreached_and_wrong", "drawn_parameter")
"""Traps of six themes; the others take 20 s each, and run with the slow tests."""


def _one_by_one(traps: tuple[Trap, ...]) -> list[Any]:
    marks = {each.name: () if each.name in QUICK else (pytest.mark.slow,) for each in traps}
    return [pytest.param(each, id=each.name, marks=marks[each.name]) for each in traps]


_environment: dict[str, str] = {}
"""Of the first test: a server serves only what runs in its own environment."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, servers: list[ForkServer]) -> ForkServer:
    """Return the one server of this module."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    _environment.update({} if _environment else os.environ)
    for name in {*os.environ} - {*_environment}:
        monkeypatch.delenv(name)
    for name, value in _environment.items():
        monkeypatch.setenv(name, value)
    if not servers:
        servers.append(new_server())
    return servers[0]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[ForkServer]]:
    """Keep the server of this module, and close it."""
    kept: list[ForkServer] = []
    yield kept
    for each in kept:
        each.close()


def proof_of(trap: Trap, folder: Path, server: ForkServer) -> ProofOutcome:
    """Prove a trap's change with the conditions that any change of source gets."""
    before, after = trap.texts()
    path = folder / "net.py"
    path.write_text(before)
    file = str(path)
    with Runner(resolve(file), Options(), 120, SearchBudget(None), server) as runner:
        session = runner.capture(Trial())
        prover = Prover(runner, session)
        assert prover.why_unstable() == ""
        found = keys_of(session)
        gone = Counter({key: count for key, count in found.items() if key[0] in ("break", "recompile")})
        change = ChangeToProve(trial_with([NewText(file, after)]), gone, conditions_of(file, before, after))
        outcome = prover.attempt(change).outcome
    assert path.read_text() == before
    return outcome


@pytest.mark.long
@pytest.mark.parametrize("trap", _one_by_one(tuple(TRAPS)))
def test_a_wrong_repair_is_not_proved(trap: Trap, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # pytest sets it again when a test begins
    outcome = proof_of(trap, tmp_path, server)
    failed = [each.name for each in outcome.checks if not each.passed]
    assert not outcome.proved
    assert set(failed) & set(trap.checks), outcome.checks


@pytest.mark.long
@pytest.mark.parametrize("trap", [each for each in RIGHT if not each.checks], ids=lambda trap: trap.name)
def test_a_right_repair_is_proved(trap: Trap, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    outcome = proof_of(trap, tmp_path, server)
    assert outcome.proved, outcome.why


READ = """\
import torch
from torch import nn


@torch.compile(backend="eager")
def doubled(x):
    return x * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.tensor(0.5))

    def forward(self, x):
        return {returned} * self.level.item()


model = Net()


def inputs():
    return (torch.randn(4, 3),)
"""
OPTION = "from torch import nn\n\ntorch._dynamo.config.capture_scalar_outputs = True\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("returned", "runs"), [("x", 2), pytest.param("doubled(x)", 3, marks=pytest.mark.slow)], ids=["eager", "inside"]
)
def test_an_option_of_compile_needs_no_eager_call(returned: str, runs: int, tmp_path: Path, server: ForkServer):
    """A capture and compiled calls are enough, unless eager calls run what the program compiles itself."""
    path = tmp_path / "net.py"
    path.write_text(READ.format(returned=returned))
    file = str(path)
    with Runner(resolve(file), Options(), 120, SearchBudget(None), server) as runner:
        session = runner.capture(Trial())
        prover = Prover(runner, session)
        assert prover.why_unstable() == ""
        gone = Counter({key: count for key, count in keys_of(session).items() if key[0] == "break"})
        changed = NewText(file, path.read_text().replace("from torch import nn\n", OPTION))
        change = ChangeToProve(trial_with([changed]), gone, keeps_eager=True, names=("capture_scalar_outputs",))
        before = runner.runs
        outcome = prover.attempt(change).outcome
        assert outcome.proved, outcome.why
        assert runner.runs - before == runs
