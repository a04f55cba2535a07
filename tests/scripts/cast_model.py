"""A model cast to another dtype: every parameter differs, and so does the input."""

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


net = Net()
compiled = torch.compile(net, backend="eager")
compiled(torch.ones(2, 3))
net.double()
compiled(torch.ones(2, 3, dtype=torch.float64))
