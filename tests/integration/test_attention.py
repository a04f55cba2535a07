"""Reports on attention match torch: each spelling by torch's own counter, each reason by an experiment."""

import json
from pathlib import Path

import pytest
import torch

from ctrace.inspector.facts.passes import Attention
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionState, state_of
from ctrace.inspector.knowledge.releases import NEWEST, release_of
from ctrace.inspector.log.reader import read
from ctrace.inspector.session.build import build
from tests.integration.attention import CALLS, SPELLINGS
from tests.integration.conftest import Command
from tests.support.places import ROOT

NAMES = (*(f"hand:{name}" for name in SPELLINGS), *(f"call:{name}" for name in CALLS))
QUICK = (
    *(f"hand:{name}" for name in ("textbook", "trained", "exp_over_sum", "three_projected", "filled", "weights")),
    *(f"call:{name}" for name in ("plain", "three")),
)
OLD = (release_of(torch.__version__) or NEWEST) < (2, 13)
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here"))


class Run:
    """All spellings on one device."""

    def __init__(self, device: str, names: tuple[str, ...], log: Path, out: str) -> None:
        self.device = device
        self.names = names
        self.counted: dict[str, int] = json.loads(out.splitlines()[-1])
        self.session: Session = build(read(log))

    def of(self, name: str) -> Attention:
        """Return the one attention of a spelling; each was compiled after a reset."""
        number = self.names.index(name) + 1
        graph = "0/0" if number == 1 else f"{number}.0/0"
        (found,) = (each for each in self.session.attention if each.graph == graph)
        return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("names", [QUICK, pytest.param(NAMES, marks=pytest.mark.slow)], ids=["some", "all"])
def test_the_report_matches_torchs_counter(names: tuple[str, ...], device: str, ctrace: Command) -> None:
    """One test, since all spellings are compiled in one process."""
    log = ctrace.folder / "trace.log"
    done = ctrace.python(str(Path(__file__).with_name("attention_run.py")), str(log), device, *names, timeout=500)
    assert done.returncode == 0, done.stderr
    run = Run(device, names, log, done.stdout)
    _check_sources(run)
    wrong = {name: seen for name in names if (seen := _failure(run, name))}
    assert not wrong, "\n\n".join(f"{name}: {seen}" for name, seen in wrong.items())


def _failure(run: Run, name: str) -> str:
    kind, _, name = name.partition(":")
    try:
        (_check_by_hand if kind == "hand" else _check_call)(run, name)
    except AssertionError as error:
        return str(error)
    return ""


def _check_sources(run: Run) -> None:
    assert [problem for problem in run.session.problems if "still being generated" not in problem.what] == []
    assert sum(each.counted for each in run.session.attention) == sum(run.counted.values())


def _check_by_hand(run: Run, name: str) -> None:
    spelling, found = SPELLINGS[name], run.of(f"hand:{name}")
    counted = run.counted[f"hand:{name}"]
    code = (spelling.on_cuda if run.device == "cuda" else "") or (spelling.on_2_11 if OLD else "") or spelling.code
    assert (counted > 0) == (not code)  # the table matches torch
    assert found.counted == counted
    assert (found.matched is not None) == (not code)
    assert found.call is None
    assert found.axis in (spelling.axis, None)  # None: more than one dimension
    assert found.is_wrong == spelling.wrong
    if code:
        assert state_of(found) is AttentionState.NOT_MATCHED
        assert found.why is not None
        assert found.why.code == code
        assert code != "rank" or found.why.rank == len(spelling.shapes[0])
        assert all(line.startswith(str(ROOT / "tests" / "integration" / "attention.py")) for line in found.why.lines)


def _check_call(run: Run, name: str) -> None:
    call, found = CALLS[name], run.of(f"call:{name}")
    assert run.counted[f"call:{name}"] == 0
    assert found.call is not None
    if run.device == "cpu":
        assert (found.why.code if found.why else "") == call.code
        assert bool(found.fused) == (not call.code)
    else:
        assert state_of(found) in (AttentionState.FUSED, AttentionState.NOT_FUSED)


@pytest.mark.parametrize("name", [name for name, each in SPELLINGS.items() if not each.matched])
def test_attention_matches_after_removing_the_obstacle(name: str) -> None:
    assert SPELLINGS[SPELLINGS[name].instead].matched  # which the test above compares with torch's counter
