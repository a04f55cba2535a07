"""The models of eject.py: CTRACE_BENCH_MODEL selects one, CTRACE_BENCH_DEVICE its device.

They train without dropout, because a kernel with random numbers cannot be ejected. Nothing is downloaded: weights are
random, and sizes are small, so that Triton's interpreter can run the kernels.
"""

import os
from typing import Any

import torch
from torch import Tensor, nn

DEVICE = os.environ.get("CTRACE_BENCH_DEVICE", "cpu")
BATCH, SEQUENCE, WIDTH, HEADS, WORDS = 2, 32, 64, 4, 500


class ConvNet(nn.Module):
    """Two layers of convolution, BatchNorm and relu, pooling, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(16)])
        self.classes = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norms[0](self.first(x))), 2)
        x = torch.relu(self.norms[1](self.second(x)))
        result: Tensor = self.classes(x.mean((2, 3)))
        return result


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    found: nn.Module = GPT2LMHeadModel(
        GPT2Config(
            n_layer=2,
            n_embd=WIDTH,
            n_head=HEADS,
            n_positions=SEQUENCE,
            vocab_size=WORDS,
            use_cache=False,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    return found


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    found: nn.Module = LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=2,
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_attention_heads=HEADS,
            num_key_value_heads=2,
            use_cache=False,
        )
    )
    return found


def _text() -> dict[str, Any]:
    tokens = torch.randint(0, WORDS, (2, BATCH, SEQUENCE))
    return {"input_ids": tokens[0], "labels": tokens[1]}


_NAME = os.environ.get("CTRACE_BENCH_MODEL", "conv")
torch.manual_seed(0)
model = {"conv": ConvNet, "gpt2": _gpt2, "llama": _llama}[_NAME]().to(DEVICE)


def inputs() -> Any:
    """Return the inputs of the chosen model."""
    if _NAME == "conv":
        return (torch.rand(BATCH, 3, 16, 16, device=DEVICE),)
    return {name: value.to(DEVICE) for name, value in _text().items()}
