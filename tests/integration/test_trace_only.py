"""A capture without Inductor's code, or without Inductor, shows the same as a complete one."""

import json
from pathlib import Path

import pytest

from ctrace.inspector.facts.session import FailurePhase, Session, Verdict
from ctrace.inspector.features.check.check_model import CheckJob, FinishedJob, JobKey
from ctrace.inspector.features.check.pool import run_jobs
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.store import Store

_SAME = (
    "breaks",
    "skips",
    "recompiles",
    "coverage",
    "graphs",
    "limit",
    "dangers",
    "scenarios",
    "problems",
    "functions",
)
"""Fields of a session that a check of breaks and recompiles reads."""

_BROKEN = """
import atexit, json, sys
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x, scale=2):
        self.calls += 1
        x = self.layer(x)
        if x.sum() > 0:
            x = x * scale
        x.register_hook(self.in_backward)
        return x.relu()

    def in_backward(self, gradient):
        print("backward")
        return gradient


def model():
    torch.manual_seed(0)
    return Net()


def inputs():
    return (torch.ones(4, 8, requires_grad=True),)


scenarios = {"wide": lambda: (torch.ones(6, 8, requires_grad=True),), "scale": lambda: {"x": torch.ones(6, 8, requires_grad=True), "scale": 3}}
heavy = "torch._inductor.compile_fx", "torch._inductor.graph", "torch._inductor.scheduler"
atexit.register(lambda: open("imported.json", "w").write(json.dumps([name for name in heavy if name in sys.modules])))
"""


def _captured(folder: Path, text: str, **options: bool) -> Session:
    file = folder / "net.py"
    file.write_text(text)
    job = CheckJob(JobKey("net.py"), str(file), Options(**options), timeout=250)  # type: ignore[arg-type]
    (ran,) = run_jobs([job], store=Store(folder / "runs"))
    assert ran.session is not None, ran.error
    return ran.session


@pytest.mark.long
@pytest.mark.parametrize("train", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_trace_only_finds_the_same_as_a_whole_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = _captured(tmp_path, _BROKEN, train=train)
    assert json.loads((tmp_path / "imported.json").read_text())
    lowered = _captured(tmp_path, _BROKEN, train=train, trace_only=True)
    assert {name for name in _SAME if getattr(whole, name) != getattr(lowered, name)} == set()
    traced = _captured(tmp_path, _BROKEN, train=train, trace_only=True, inductor_guards=False)
    assert json.loads((tmp_path / "imported.json").read_text()) == []
    assert traced.breaks
    assert traced.recompiles
    assert {name for name in _SAME if getattr(whole, name) != getattr(traced, name)} == set()
    assert set(_SAME) <= set(Session.__struct_fields__)


@pytest.mark.slow
def test_a_model_that_compiles_a_part_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXX", "/no/compiler")
    text = """
import torch
part = torch.compile(torch.nn.Linear(4, 4))
class Net(torch.nn.Module):
    @torch._dynamo.disable
    def outside(self, x):
        return part(x)
    def forward(self, x):
        return self.outside(x) + 1
model = Net()
inputs = (torch.rand(2, 4),)
"""
    session = _captured(tmp_path, text, trace_only=True)
    assert session.failure is None
    assert session.verdict is Verdict.PARTIAL


_REFUSED = """
import torch
from torch._inductor.lowering import register_lowering
@torch.library.custom_op("refused::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x + 1
@op.register_fake
def _(x):
    return torch.empty_like(x)
@register_lowering(torch.ops.refused.op.default)
def lower(x):
    raise ValueError("no lowering today")
class Net(torch.nn.Module):
    def forward(self, x):
        return op(x).sum()
model = Net()
inputs = (torch.rand(2, 4),)
"""


@pytest.mark.slow
def test_a_graph_that_cannot_be_lowered_fails_as_with_inductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"{_REFUSED}scenarios = {{'wide': lambda: (torch.rand(2, 6),)}}\n"
    dynamic = {"dynamic": True}
    whole = _captured(tmp_path, text, **dynamic)
    lowered = _captured(tmp_path, text, trace_only=True, **dynamic)
    assert whole.failure is not None
    assert "no lowering today" in whole.failure.message
    assert lowered.failure == whole.failure
    assert _captured(tmp_path, text, trace_only=True, inductor_guards=False, **dynamic).failure is None


_HEALTHY = "import torch\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.rand(2, 4),)\n"
_CRASHES = "import os, sys\nprint('about to crash')\nsys.stdout.flush()\nos.abort()\nmodel = inputs = None\n"
_LEAVES = "import os\nos._exit(0)\nmodel = inputs = None\n"
_HANGS = "import time\nprint('hanging', flush=True)\nwhile True: time.sleep(1)\nmodel = inputs = None\n"
_FLOODS = "while True: print('x' * 200)\nmodel = inputs = None\n"
_RAISES = "import torch\ndef model(x): raise ValueError('no')\ninputs = (torch.rand(2, 4),)\n"


@pytest.mark.long
def test_a_model_that_crashes_or_hangs_affects_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"healthy": _HEALTHY, "crashes": _CRASHES, "leaves": _LEAVES, "hangs": _HANGS, "floods": _FLOODS}
    jobs = []
    for name, text in {**texts, "raises": _RAISES}.items():
        (tmp_path / f"{name}.py").write_text(text)
        timeout = {"hangs": 10.0, "floods": 4.0}.get(name, 200.0)  # what hangs has to start and print first
        jobs.append(CheckJob(JobKey(name), f"{name}.py", Options(trace_only=True), timeout=timeout))
    ran: dict[str, FinishedJob] = {each.job.key.model: each for each in run_jobs(jobs, store=Store(), at_a_time=2)}
    phases = {name: each.session and each.session.failure and each.session.failure.phase for name, each in ran.items()}
    assert phases == {
        "healthy": None,
        "crashes": FailurePhase.CRASH,
        "leaves": FailurePhase.CRASH,
        "hangs": FailurePhase.TIMEOUT,
        "floods": FailurePhase.TIMEOUT,
        "raises": FailurePhase.EAGER,
    }
    session = ran["healthy"].session
    assert session is not None
    assert session.verdict is Verdict.COMPILED
    assert ran["crashes"].last_lines.startswith("about to crash")
    assert ran["hangs"].last_lines == "hanging"
    assert ran["raises"].last_lines.endswith("ValueError: no")
    run = ran["floods"].run
    assert run is not None
    assert (tmp_path / ".ctrace" / run / "output.txt").stat().st_size < 1_100_000
