"""`--target`: a program's questions about the device, and its Triton kernels, on a machine without a GPU."""

import importlib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.facts.session import Session, Verdict
from ctrace.inspector.features.gpus.child.triton_interpreter import interpreter
from ctrace.inspector.runs.load import load_log
from tests.integration.conftest import Command
from tests.support.places import ROOT

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, and the program would use it")

ASKING = """\
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.name = DEVICE

    def forward(self, x):
        if x.is_cuda and x.device.type == "cuda" and x.get_device() == 0:
            x = torch.sin(x)
        if not torch.cuda.is_available() or x.device == torch.device("cpu"):
            x = torch.cos(x)
        counted = torch.arange(8)
        if counted.is_cuda:
            x = torch.cos(x)
        kept = torch.ones(8, device="cpu") + 1
        moved = torch.zeros(8, device=x.device) + torch.ones(8, device=self.name)
        where = x.device
        print("a break")
        return self.linear(x) + moved + torch.ones(8, device=where), kept


model = Net()


def inputs():
    return (torch.rand(8, 8, device=DEVICE),)
"""
WRITTEN_FOR_A_GPU = """\
import torch

torch.set_default_device("cuda")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.capability = torch.cuda.get_device_capability()
        self.register_buffer("shift", torch.zeros(8, device="cuda"))

    def forward(self, x):
        return self.linear(x.cuda() + torch.ones(8, device="cuda")).to("cuda") + self.shift


model = Net().cuda().to("cuda")


def inputs():
    return (torch.rand(8, 8, device="cuda"),)
"""
ASKING_WHICH_GPU = """\
import torch


def model(x):
    if torch.cuda.get_device_capability(x.device) >= (8, 0) and torch.cuda.current_device() == 0:
        x = torch.sin(x)
    if torch.cuda.get_device_properties(x.device).multi_processor_count < 100:
        x = torch.cos(x)
    return torch.sigmoid(x)


def inputs():
    return (torch.rand(8, 8),)
"""
MIXED = """\
import torch


def model(x):
    return x.exp() + torch.arange(8)


def inputs():
    return (torch.rand(8, 8),)
"""
KERNELS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def twice(x):
    return tl.sigmoid(x) * 2


@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.jit
def gate(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, twice(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@triton.heuristics({"B": lambda given: triton.next_power_of_2(given["n"])})
@triton.jit
def softmax(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0) * n
    x = tl.load(x_ptr + row + i, mask=i < n, other=-float("inf"))
    tl.store(o_ptr + row + i, tl.softmax(x), mask=i < n)


def model(x):
    gated, out = torch.empty_like(x), torch.empty_like(x)
    gate[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, gated, x.numel())
    softmax[(x.shape[0],)](gated, out, x.shape[1])
    return out


def inputs():
    return (torch.rand(6, 20),)
"""


def explained(ctrace: Command, tmp_path: Path, source: str, *options: str) -> Session:
    """Explain a model file for an H100."""
    file = tmp_path / "asking.py"
    file.write_text(source)
    ctrace("explain", str(file), "--target", "h100", *options)
    return last(tmp_path)


def last(folder: Path) -> Session:
    """Read the last run in a folder."""
    return load_log(max(folder.glob(".ctrace/*/trace.log")))


def questions(session: Session) -> dict[str, tuple[str, bool]]:
    """Return each question with its answer, and whether the answer is the target's."""
    return {each.asked: (each.answer, each.as_target) for each in session.device_questions}


@pytest.mark.long
def test_compiled_code_sees_the_target(ctrace: Command, tmp_path: Path) -> None:
    """ctrace traces the GPU's branch, in eager and in compiled code, and across a graph break."""
    session = explained(ctrace, tmp_path, ASKING)
    assert session.verdict is Verdict.PARTIAL
    assert session.dangers == ()
    answers = questions(session)
    assert answers.pop('torch.ones(8, device="cpu")') == ("on the CPU", True)
    assert answers == {
        "torch.cuda.is_available()": ("True", True),
        "x.is_cuda": ("True", True),
        "x.device.type": ("cuda", True),
        "x.get_device()": ("0", True),
        'x.device == torch.device("cpu")': ("False", True),
    }
    assert [(each.line, each.answer) for each in session.device_questions if "available" in each.asked] == [
        (3, "False"),
        (15, "True"),
    ]
    assert "cpp" in {kernel.language for kernel in session.kernels}
    assert not any("cos" in kernel.name for kernel in session.kernels)


@pytest.mark.long
def test_traced_code_learns_which_gpu_it_is(ctrace: Command, tmp_path: Path) -> None:
    """Calls that Dynamo folds, guards or leaves in the graph, as libraries make before they take a GPU's op."""
    session = explained(ctrace, tmp_path, ASKING_WHICH_GPU)
    assert session.verdict is Verdict.COMPILED
    assert (session.problems, len(session.graphs)) == ((), 1)
    assert questions(session) == {
        "torch.cuda.get_device_capability(x.device)": ("(9, 0)", True),
        "torch.cuda.current_device()": ("0", True),
        "torch.cuda.get_device_properties(x.device)": ("those of NVIDIA H100 80GB HBM3", True),
    }
    kernels = " ".join(kernel.name for kernel in session.kernels)
    assert "sin" in kernels
    assert "cos" not in kernels


@pytest.mark.slow
def test_a_model_written_for_a_gpu_loads(ctrace: Command, tmp_path: Path) -> None:
    """Tensors that the model moves to the GPU while loading stay on the CPU; these moves and the questions are recorded."""
    session = explained(ctrace, tmp_path, WRITTEN_FOR_A_GPU)
    assert session.verdict is Verdict.COMPILED
    answers = questions(session)
    assert answers.pop("torch.cuda.get_device_capability()") == ("(9, 0)", True)
    assert set(answers) == {
        'torch.set_default_device("cuda")',
        'torch.zeros(8, device="cuda")',
        "Net().cuda()",
        'Net().cuda().to("cuda")',
        'torch.rand(8, 8, device="cuda")',
    }
    assert not any(as_target for _, as_target in answers.values())


@pytest.mark.slow
def test_mixed_devices_are_reported_with_their_line(ctrace: Command, tmp_path: Path) -> None:
    """`torch.arange(8)` is on the CPU even on a machine with a GPU, so the program raises there."""
    session = explained(ctrace, tmp_path, MIXED)
    file = tmp_path / "asking.py"
    assert any(f"would raise on the GPU at {file}:5" in problem.what for problem in session.problems)


@pytest.mark.long
def test_own_kernels_run_without_a_gpu(ctrace: Command, tmp_path: Path) -> None:
    """Autotuned kernels, heuristics and device functions."""
    pytest.importorskip("triton")
    session = explained(ctrace, tmp_path, KERNELS)
    assert session.verdict is Verdict.COMPILED
    assert session.dangers == ()
    assert session.problems == ()
    assert {kernel.kernel for kernel in session.user_kernels} == {"gate", "softmax"}


@pytest.mark.slow
@pytest.mark.parametrize("sample", ["triton_kernel", "triton_op"])
def test_samples_show_their_kernels(ctrace: Command, tmp_path: Path, sample: str) -> None:
    """The samples' files show the same kernels as on a GPU."""
    pytest.importorskip("triton")
    ctrace("explain", str(ROOT / "sample_models" / f"{sample}.py"), "--target", "h100")
    session = last(tmp_path)
    assert session.verdict is Verdict.COMPILED
    assert len(session.user_kernels) == 1


@pytest.mark.slow
def test_a_sample_trains(ctrace: Command, tmp_path: Path) -> None:
    """The report has the kernel of the gradient, too."""
    pytest.importorskip("triton")
    ctrace("explain", str(ROOT / "sample_models" / "triton_op.py"), "--target", "h100", "--train")
    session = last(tmp_path)
    assert session.verdict is Verdict.COMPILED
    assert len(session.user_kernels) == 2


def test_the_interpreter_computes_the_kernels_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are right, and Triton's language module is restored, so kernels still compile."""
    triton = pytest.importorskip("triton")
    (tmp_path / "own_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = importlib.import_module("own_kernels").model
    before = dict(vars(triton.language.core))
    problems: list[str] = []
    recorder: Any = SimpleNamespace(problem=problems.append, watching=lambda _: nullcontext(), doubts=[])
    with interpreter(recorder, lambda name, action: action(importlib.import_module(name))):
        x = torch.rand(6, 20)
        torch.testing.assert_close(model(x), torch.softmax(2 * torch.sigmoid(x), 1))
    assert problems == []
    assert dict(vars(triton.language.core)) == before
