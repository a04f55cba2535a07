"""Choices that torch makes by timing are listed with `--target`, and never invented."""

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Undecided
from ctrace.inspector.runs.load import load_log
from tests.integration.conftest import Command

MATMUL = """\
import torch
def model(x, w):
    return torch.relu(x @ w) + 1
def inputs():
    return torch.randn(256, 512), torch.randn(512, 384)
"""
FLEX = """\
import torch
from torch.nn.attention.flex_attention import flex_attention, create_block_mask
def causal(b, h, q, k): return q >= k
def bias(score, b, h, q, k): return score + (q - k) * 0.1
class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(64, 192)
        self.mask = create_block_mask(causal, None, None, 128, 128, device="cpu")
    def forward(self, x):
        q, k, v = (t.view(-1, 128, 2, 32).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return flex_attention(q, k, v, score_mod=bias, block_mask=self.mask)
model = Attention()
def inputs(): return (torch.randn(2, 128, 64),)
"""


def _session(ctrace: Command, source: str, *words: str) -> Session:
    ctrace.write("model.py", source)
    result = ctrace("explain", "model.py", *words)
    assert result.code == 0, result.err
    (run,) = (ctrace.folder / ".ctrace").glob("*/trace.log")
    return load_log(run)


def _of_kind(session: Session, kind: str) -> list[Undecided]:
    return [each for each in session.undecided if each.kind == kind]


@pytest.mark.slow
def test_candidates_of_a_matmul_are_listed_and_the_library_is_used(ctrace: Command) -> None:
    session = _session(ctrace, MATMUL, "--target", "h100", "--mode", "max-autotune")
    (choice,) = _of_kind(session, "autotuning")
    assert (choice.subject, choice.taken) == ("mm(256x512, 512x384) float32", "mm")
    assert choice.lines[0].endswith("model.py:3")
    templates = [each for each in choice.candidates if each.language == "triton"]
    assert len(templates) > 9
    assert len(templates) + 1 == len(choice.candidates)
    assert all("BLOCK_M=" in each.configuration and "num_warps=" in each.configuration for each in templates)
    (fusion,) = _of_kind(session, "fusion")
    assert (fusion.taken, [each.name for each in fusion.candidates]) == ("separate", ["fused", "separate"])
    assert "(mm)" in fusion.subject
    assert "relu" in fusion.subject
    assert not session.problems


@pytest.mark.slow
def test_a_gpu_too_small_for_templates_leaves_nothing_open(ctrace: Command) -> None:
    session = _session(ctrace, MATMUL, "--target", "t4", "--mode", "max-autotune-no-cudagraphs")
    assert not _of_kind(session, "autotuning")
    assert not _of_kind(session, "fusion")
    assert not session.problems


@pytest.mark.slow
def test_if_only_templates_are_allowed_the_first_is_used(ctrace: Command) -> None:
    settings = (
        "import torch._inductor.config as c\nc.max_autotune_gemm = True\nc.max_autotune_gemm_backends = 'TRITON'\n"
    )
    session = _session(ctrace, settings + MATMUL, "--target", "h100")
    (choice,) = _of_kind(session, "autotuning")
    assert choice.taken == choice.candidates[0].name == "triton_mm_0"
    assert any(kernel.name.startswith("triton_tem_fused") for kernel in session.kernels)


@pytest.mark.slow
def test_flex_attention_trains_as_on_the_gpu(ctrace: Command) -> None:
    session = _session(ctrace, FLEX, "--target", "h100", "--train")
    templates = [kernel.name for kernel in session.kernels if kernel.name.startswith("triton_tem_fused")]
    assert len(templates) == 2
    assert any("flex_attention_backward" in name for name in templates)
    assert {each.kind for each in session.undecided} <= {"configuration"}
    assert not session.problems


@pytest.mark.slow
def test_without_a_target_skipped_autotuning_is_reported(ctrace: Command) -> None:
    session = _session(ctrace, MATMUL, "--mode", "max-autotune")
    (problem,) = session.problems
    assert "--build" in problem.what
    assert "--target" in problem.what
    assert not session.undecided
