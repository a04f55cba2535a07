"""A sampling loop that reads each token on the host to stop early."""

import torch


class Sampler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(16, 8)
        self.out = torch.nn.Linear(8, 16)

    def forward(self, tokens):
        for _ in range(3):
            logits = self.out(self.emb(tokens)).sum(0)
            token = logits.argmax().item()
            if token == 0:
                break
            tokens = torch.cat([tokens, torch.tensor([token])])
        return tokens


def model():
    torch.manual_seed(0)
    return Sampler().eval()


def inputs():
    return (torch.tensor([1, 2]),)
