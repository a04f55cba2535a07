"""Dumped files of real runs on a GPU: every Triton kernel runs, and every wrapper returns the eager results."""

import re

import pytest
import torch

from tests.integration.conftest import Command
from tests.integration.dumping import dumped, run_all, wrappers

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here"),
]

ATTENTION = """
import torch

def model(q, k, v):
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v

def inputs():
    return tuple(torch.randn(4, 1024, 1024, device="cuda") for _ in range(3))
"""
MLP = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.Softmax(-1)).to(
        "cuda", torch.{dtype}
    )

def inputs():
    return (torch.randn(256, 512, device="cuda", dtype=torch.{dtype}),)
"""
CONV = """
import torch
from torch import nn

def model():
    return nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 8, 1)
    ).cuda()

def inputs():
    return (torch.randn(8, 16, 64, 64, device="cuda"),)
"""
EMBEDDING = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.drop, self.head = nn.Embedding(5000, 256), nn.Dropout({p}), nn.Linear(256, 5000)

    def forward(self, tokens, targets):
        return nn.functional.cross_entropy(self.head(self.drop(self.embedding(tokens))).flatten(0, 1), targets.flatten())

def model():
    return Model().cuda()

def inputs():
    return tuple(torch.randint(5000, (8, 64), device="cuda") for _ in range(2))
"""
CASES = {
    "attention": (ATTENTION,),
    "attention_dynamic": (ATTENTION, "--dynamic"),
    "mlp": (MLP.format(dtype="float32"),),
    "mlp_bfloat16": (MLP.format(dtype="bfloat16"), "--train"),
    "mlp_float16": (MLP.format(dtype="float16"),),
    "conv": (CONV, "--train"),
    "embedding": (EMBEDDING.format(p=0.0), "--train"),
    "embedding_dropout": (EMBEDDING.format(p=0.1), "--train"),
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_all_files_run_and_match(ctrace: Command, name: str):
    code, *words = CASES[name]
    made = dumped(ctrace, str(ctrace.write("model.py", code)), *words)
    assert made.left_out == ()
    kernels = [each for part in made.parts for each in part.kernels]
    assert any(each.language == "triton" for each in kernels)
    ran = run_all(ctrace, made)
    for each in wrappers(ran):
        print(each.out)
        assert ": matches eager" in each.out
        assert ("random numbers" in each.out) == (name == "embedding_dropout") or "backward" in each.out
    for each in ran:
        assert re.search(r"median [\d.]+ µs of \d+ (runs|calls) on cuda:0", each.out), each.out
