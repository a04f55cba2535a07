"""A size that is marked as dynamic, but specialized by a Python loop over it: compiling raises."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = self.lin(x)
        out = torch.zeros_like(h[:, 0])
        for t in range(h.shape[1]):
            out = 0.9 * out + h[:, t]
        return out


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    x = torch.rand(4, 6, 8)
    torch._dynamo.mark_dynamic(x, 1)
    return (x,)
