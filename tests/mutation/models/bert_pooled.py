"""A small BERT over embeddings of its own, with the mean of all tokens as its result."""

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

VOCABULARY, WIDTH = 50, 16


def mean_of(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens that the mask keeps."""
    kept = mask[:, :, None].to(hidden.dtype)
    return (hidden * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)


class SentenceEncoder(nn.Module):
    """Maps tokens of shape (batch, tokens) to (batch, width)."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=2 * WIDTH,
            max_position_embeddings=32,
        )
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.body = BertModel(config, add_pooling_layer=False)
        self.layers = nn.ModuleList((nn.Linear(WIDTH, WIDTH), nn.GELU()))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        embedded = self.embed(tokens)
        hidden = self.body(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        for layer in self.layers:
            hidden = layer(hidden)
        return mean_of(hidden, mask)


def model() -> nn.Module:
    return SentenceEncoder().eval()


def inputs() -> tuple[Tensor, Tensor]:
    return torch.randint(VOCABULARY, (2, 8)), torch.ones(2, 8, dtype=torch.int64)
