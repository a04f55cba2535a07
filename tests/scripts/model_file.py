"""A model file with two scenarios and a print in the middle: coverage is measured."""

import torch


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sin().cos()
        print("shape", x.shape, x.sum())
        return x.tanh()


model = Net()
inputs = (torch.ones(4, 2),)
scenarios = {"wide": lambda: (torch.ones(8, 2),)}
