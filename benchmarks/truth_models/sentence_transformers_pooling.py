"""BERT with mean pooling."""

import torch
from sentence_transformers.models import Pooling
from transformers import BertConfig, BertModel

PACKAGES = ("sentence-transformers", "transformers", "tokenizers", "safetensors", "huggingface-hub")


class Embedder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
        )
        self.bert = BertModel(config)
        self.pool = Pooling(32)

    def forward(self, input_ids, attention_mask):
        tokens = self.bert(input_ids, attention_mask).last_hidden_state
        return self.pool({"token_embeddings": tokens, "attention_mask": attention_mask})["sentence_embedding"]


torch.manual_seed(0)
model = Embedder().eval()


def inputs():
    torch.manual_seed(1)
    return {"input_ids": torch.randint(0, 100, (2, 12)), "attention_mask": torch.ones(2, 12, dtype=torch.long)}
