"""Fusion rounds of a language model match torch's own log; `test_samples.py` checks those of the samples."""

import pytest

from ctrace.inspector.log.reader import read
from ctrace.inspector.session.build import build
from tests.integration.conftest import Command
from tests.support.fusionlog import assert_fused_as_logged

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


def test_rounds_of_llama_are_those_of_torchs_log(ctrace: Command) -> None:
    pytest.importorskip("transformers")
    ctrace.write("llama.py", LLAMA)
    text = ctrace.folder / "torch.log"
    result = ctrace("explain", "llama.py", "--train", TORCH_LOGS="fusion", TORCH_LOGS_OUT=str(text))
    assert result.code == 0, result.err
    (log,) = ctrace.folder.glob(".ctrace/*/trace.log")
    session = build(read(log))
    assert_fused_as_logged(session, text)
    assert session.problems == ()
    assert {fusion.stage for fusion in session.fusions} >= {"forward", "backward"}
    assert sum(len(each.refused) for fusion in session.fusions for each in fusion.rounds) > 100
