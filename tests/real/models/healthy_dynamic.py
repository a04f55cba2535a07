"""A healthy model called with several batch sizes, which the caller marked as dynamic."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def forward(self, x):
        return self.body(x).softmax(-1)


def model():
    torch.manual_seed(0)
    return Net().eval()


def batch(size):
    x = torch.rand(size, 8)
    torch._dynamo.mark_dynamic(x, 0)
    return (x,)


def inputs():
    return batch(4)


scenarios = {"wide": lambda: batch(16), "odd": lambda: batch(7)}
