"""`--target`: Triton code for the target GPU, and a program that behaves as it does without ctrace."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ctrace.inspector.facts.session import Session, Verdict
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from tests.integration.conftest import Command

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
"""
NET = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return torch.softmax(x + self.down(nn.functional.gelu(self.up(self.norm(x)))), -1)

model = Net()
def inputs():
    return (torch.rand(8, 16),)
"""
)
SCENARIOS = NET + "\nscenarios = {'wide': lambda: (torch.rand(3, 8, 16),)}\n"
BROKEN = (
    HEAD
    + """
@torch.compiler.disable
def found(x):
    print("found", round(x.square().sum().item(), 3), x.device, torch.cuda.is_available(), torch.cuda.device_count(), flush=True)
    return x

def model(x, weight):
    x = found(torch.softmax(x @ weight, -1))
    return x.sin().sum(0) + torch.rand_like(x[0])

def inputs():
    torch.manual_seed(1)
    return torch.rand(8, 16), torch.rand(16, 16)
"""
)
CAPABILITY = {"h100": "90", "a100": "80", "t4": "75"}
compiler = pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++")), reason="training on a CPU build needs a C++ compiler, once"
)


@dataclass(frozen=True)
class Explained:
    """A run, and the program's output."""

    session: Session
    printed: tuple[str, ...]


@pytest.fixture
def explained(ctrace: Command) -> Callable[..., Explained]:
    def run(text: str, *options: str) -> Explained:
        ctrace.write("m.py", text)
        done = ctrace("explain", "m.py", *options)
        assert done.code == 0, done.err
        session = load(Store(ctrace.folder / ".ctrace").load())
        printed = tuple(line for line in (done.out + done.err).splitlines() if line.startswith("found"))
        return Explained(session, printed)

    return run


def check_emitted(session: Session, target: str) -> None:
    """Each graph part has Triton kernels for this GPU, and the run has no problems."""
    assert session.gpu is not None
    assert session.gpu.target == target
    generated = [each for each in session.kernels if each.language != "external"]
    assert generated
    assert {each.language for each in generated} == {"triton"}
    for kernel in generated:
        assert re.findall(r"\bcc=(\d+)", kernel.source) == [CAPABILITY[target]], kernel.name
        assert "type='cuda'" in kernel.source
    assert {(each.graph, each.stage) for each in session.code} == {(each.graph, each.stage) for each in session.kernels}
    assert [each.what for each in session.problems] == []
    assert session.dangers == ()


@pytest.mark.slow
@pytest.mark.parametrize("target", CAPABILITY)
def test_inference_is_emitted_for_each_target(explained: Callable[..., Explained], target: str) -> None:
    session = explained(NET.replace("Net()", "Net().eval().requires_grad_(False)"), "--target", target).session
    check_emitted(session, target)
    assert session.verdict is Verdict.COMPILED
    assert {each.stage for each in session.kernels} == {"inference"}
    assert session.compared


@pytest.mark.slow
def test_a_function_that_would_run_eagerly_on_the_target_is_named(explained: Callable[..., Explained]) -> None:
    text = NET.replace("Net()", "Net().bfloat16()").replace("(8, 16)", "(8, 16).bfloat16()")
    session = explained(text, "--target", "t4").session
    [problem] = session.problems
    assert "torch would leave the function of graph 0/0 in eager on t4" in problem.what
    assert session.kernels == ()


CASES = {
    "training": (NET, ("--train",), "a100"),
    "dynamic sizes": (NET, ("--vary", "0=4", "--train"), "t4"),
    "two scenarios": (SCENARIOS, (), "h100"),
    "reduce-overhead": (NET, ("--mode", "reduce-overhead"), "h100"),
    "a break": (BROKEN, (), "a100"),
}


@compiler
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_program_takes_the_same_path_as_without_a_target(explained: Callable[..., Explained], case: str) -> None:
    text, options, target = CASES[case]
    plain, virtual = explained(text, *options), explained(text, *options, "--target", target)
    check_emitted(virtual.session, target)
    for found in (lambda each: each.verdict, _parts, _ways, _breaks):
        assert found(virtual.session) == found(plain.session)
    assert [line.split()[:2] for line in virtual.printed] == [line.split()[:2] for line in plain.printed]
    # Code between graphs sees the real CPU; code of the model that runs eagerly sees the target.
    seen = {line.split(" ", 2)[2] for line in virtual.printed}
    assert seen == ({"cuda:0 True 1", "cpu False 0"} if text is BROKEN else set())


def _parts(session: Session) -> list[tuple[str, str]]:
    return sorted({(each.graph, str(each.stage)) for each in session.code})


def _ways(session: Session) -> list[tuple[object, ...]]:
    return [(each.name, each.calls, each.outcome, each.compared, each.coverage) for each in session.scenarios]


def _breaks(session: Session) -> list[tuple[object, ...]]:
    return [*((each.line, each.times) for each in session.breaks), *((each.line, each.rule) for each in session.skips)]


@compiler
@pytest.mark.slow
def test_a_training_step_with_varying_sizes(explained: Callable[..., Explained]) -> None:
    session = explained(NET, "--vary", "0=4", "--train", "--target", "h100").session
    check_emitted(session, "h100")
    dynamic = [each for each in session.code if each.graph == "0/1"]
    assert dynamic
    assert {str(each.stage) for each in dynamic} == {"forward", "backward"}
    assert all(re.search(r"\bs\d+ = ", each.text) for each in dynamic)
