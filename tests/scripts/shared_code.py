"""Three blocks of one class share the cache of its forward, and each is found by a number that is compiled in."""

import torch


class Block(torch.nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.number + 1)


blocks = [Block(number) for number in range(3)]
for block in blocks:
    torch.compile(block, backend="eager")(torch.ones(3))
