"""A method that its author keeps out of compilation, with a reason."""

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    @torch.compiler.disable(reason="talks to a server")
    def report(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        x = self.report(x)
        return x * 2


compiled = torch.compile(Net(), backend="eager")

for _ in range(2):
    compiled(torch.ones(2, 3))
