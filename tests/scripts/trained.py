"""A block that is trained: attention by hand, a buffer that counts, dropout, a result that is a view, dynamic sizes."""

import math

import torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / math.sqrt(x.size(-1))
        mixed = torch.softmax(scores, -1) @ x
        return torch.nn.functional.gelu(self.norm(mixed)), x.view(-1, 16)


model = Block()
compiled = torch.compile(model)
for batch in (2, 3):
    compiled(torch.ones(batch, 8, 16))[0].sum().backward()
