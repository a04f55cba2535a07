"""Fusion rounds are those of torch's own log, and the bytes and FLOPs of nodes those of a count by hand."""

import pytest

from ctrace.inspector.build import build
from ctrace.inspector.model import Session
from ctrace.inspector.reader import read
from tests.fusionlog import told_by_torch, told_by_us
from tests.integration.conftest import ROOT, Command

SAMPLES = sorted(path.name for path in (ROOT / "sample_models").glob("*.py"))
TRAINED = {"attention_training.py", "transformer_stack.py", "embedding_loss.py"}

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    num_hidden_layers=4, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=128, use_cache=False,
)

class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.llama = LlamaForCausalLM(config)

    def forward(self, ids):
        return self.llama(input_ids=ids, labels=ids).loss

model = Trained()

def inputs():
    return (torch.randint(0, 128, (2, 16)),)
"""


def explained(ctrace: Command, *words: str, **environment: str) -> Session:
    """Run `ctrace explain` and read its log."""
    result = ctrace("explain", *words, **environment)
    assert result.code == 0, result.err
    (log,) = ctrace.folder.glob(".ctrace/*/trace.log")
    return build(read(log))


def compared(ctrace: Command, *words: str) -> Session:
    """Hold our data against torch's log of the same run; graph parts that compile at the same time have no order."""
    text = ctrace.folder / "torch.log"
    session = explained(ctrace, *words, TORCH_LOGS="fusion", TORCH_LOGS_OUT=str(text))
    theirs = told_by_torch(text.read_text()) if text.exists() else []
    ours = [told_by_us(fusion) for fusion in session.fusions]
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
    assert [problem.what for problem in session.problems] == []
    return session


@pytest.mark.parametrize("name", SAMPLES)
def test_rounds_of_a_sample_are_those_of_torchs_log(name: str, ctrace: Command) -> None:
    compared(ctrace, str(ROOT / "sample_models" / name), *(["--train"] if name in TRAINED else []))


def test_rounds_of_llama_are_those_of_torchs_log(ctrace: Command) -> None:
    session = compared(ctrace, str(ctrace.write("llama.py", LLAMA)), "--train")
    assert {fusion.stage for fusion in session.fusions} >= {"forward", "backward"}
    assert sum(len(each.refused) for fusion in session.fusions for each in fusion.rounds) > 100
