"""A module that counts its calls in a plain int, which is compiled in: every call compiles again, up to the limit."""

import torch


class Warmup(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x) * min(1.0, self.calls / 100)


torch._dynamo.config.recompile_limit = 3
model = torch.compile(Warmup(), backend="eager")
for _ in range(5):
    model(torch.ones(2, 3))
