"""A head of two layers over a small GPT-2."""

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2Model

VOCABULARY, WIDTH = 50, 16


def last_token(hidden: Tensor) -> Tensor:
    """The state that has seen the whole text."""
    return hidden[:, -1]


class Scorer(nn.Module):
    """Scores texts of shape (batch, tokens)."""

    def __init__(self) -> None:
        super().__init__()
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=32,
            n_embd=WIDTH,
            n_layer=2,
            n_head=2,
            use_cache=False,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.body = GPT2Model(config)
        self.layers = nn.ModuleList((nn.Linear(WIDTH, WIDTH), nn.Tanh()))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.body(input_ids=tokens).last_hidden_state
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(last_token(hidden))


def model() -> nn.Module:
    return Scorer().eval()


def inputs() -> tuple[Tensor]:
    return (torch.randint(VOCABULARY, (2, 8)),)
