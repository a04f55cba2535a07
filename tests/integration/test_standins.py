"""Ops without a CPU kernel in the GPU's code path: the capture continues with zeros, and reports it."""

import re
from pathlib import Path

import pytest

from ctrace.inspector.facts.session import Session, Verdict
from ctrace.inspector.features.check.check_model import CheckJob, JobKey
from ctrace.inspector.features.check.pool import run_jobs
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.store import Store

pytestmark = pytest.mark.integration

_MODEL = """
import torch


class Router(torch.nn.Module):
    def forward(self, x):
        chosen = x.argmax(-1).int()
        if x.is_cuda:
            counts = torch.histc(chosen, bins=4, min=0, max=3)
        else:
            counts = torch.histc(chosen.float(), bins=4, min=0, max=3)
        return x.sum(0) * counts


model = Router()
inputs = (torch.rand(6, 4),)
"""
_ITS_OWN = """
import torch


class Raises(torch.nn.Module):
    def forward(self, x):
        raise NotImplementedError("not implemented for 'Int'")


model = Raises()
inputs = (torch.rand(6, 4),)
"""


def _captured(folder: Path, text: str) -> Session:
    file = folder / "net.py"
    file.write_text(text)
    (ran,) = run_jobs(
        [CheckJob(JobKey("net.py"), str(file), Options(gpu="h100"), timeout=400)], store=Store(folder / "r")
    )
    assert ran.session is not None, ran.error
    return ran.session


@pytest.mark.long
def test_missing_weights_become_zeros_and_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = _captured(tmp_path, _MODEL)
    assert session.failure is None
    assert session.verdict is Verdict.COMPILED
    assert any(kernel.language == "triton" for kernel in session.kernels)
    problems = [each.what for each in session.problems if "are not real" in each.what]
    assert [re.sub(r"/\S+/", "", each.partition(" are ")[0]) for each in problems] == [
        "values after aten.histc.default at net.py:9",
        "values after aten.histc.default at net.py:9 in graph 0/0",
    ]
    assert all("control flow that depends on them may differ" in each for each in problems)
    (scenario,) = session.scenarios
    assert (scenario.compared, scenario.not_compared) == (
        0,
        "aten.histc.default has no kernel on the CPU and gave zeros",
    )


@pytest.mark.long
def test_the_programs_own_exceptions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = _captured(tmp_path, _ITS_OWN)
    assert session.failure is not None
    assert session.failure.type == "NotImplementedError"
