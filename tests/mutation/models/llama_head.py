"""The log-probabilities that a small Llama gives to a text."""

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

VOCABULARY, WIDTH = 50, 16


def of_next_token(logits: Tensor, tokens: Tensor) -> Tensor:
    """Picks the log-probability of every token but the first."""
    chosen = logits[:, :-1].log_softmax(dim=-1)
    return chosen.gather(-1, tokens[:, 1:, None]).squeeze(-1)


class TextScorer(nn.Module):
    """Scores tokens of shape (batch, tokens), each from those before it."""

    def __init__(self) -> None:
        super().__init__()
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            use_cache=False,
        )
        self.body = LlamaModel(config)
        self.layers = nn.ModuleList((nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        for layer in self.layers:
            states = layer(states)
        return of_next_token(states, input_ids)


def model() -> nn.Module:
    return TextScorer().eval()


def inputs() -> dict[str, Tensor]:
    return {"input_ids": torch.randint(VOCABULARY, (2, 8)), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
