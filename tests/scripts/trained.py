"""A block that is trained, with dynamic sizes: attention by hand, a buffer that counts, a view; then one without grad."""

import math

import torch


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = torch.nn.Linear(16, 16, bias=False)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        scores = self.query(x) @ x.transpose(-2, -1) / math.sqrt(16)
        mixed = torch.softmax(scores, -1) @ x
        return torch.nn.functional.gelu(mixed), x.view(-1, 16)


@torch.compile
def scaled(x):
    return torch.softmax(x * 2, -1).relu()


batch = torch.ones(2, 8, 16)
torch._dynamo.mark_dynamic(batch, 0)
block = torch.compile(Block())
block(batch)[0].sum().backward()
scaled(torch.ones(3, 4))
