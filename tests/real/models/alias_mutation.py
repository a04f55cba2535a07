"""Two views of one buffer; one is written, and they share memory only sometimes."""

import torch


class Shift(torch.nn.Module):
    def forward(self, x, y):
        x.mul_(0.5)
        return (x + y).relu()


def model():
    return Shift()


def inputs():
    memory = torch.ones(16)
    return memory[:8], memory[8:]


def overlapping():
    memory = torch.ones(16)
    return memory[:8], memory[2:10]


def same():
    x = torch.ones(8)
    return x, x


scenarios = {"overlapping": overlapping, "same": same}
