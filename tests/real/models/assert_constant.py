"""An assert on a size, with a message that contains a tensor."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.register_buffer("window", torch.tensor(4))

    def forward(self, x):
        x = self.lin(x)
        assert x.shape[1] % int(self.window) == 0, f"{x.shape[1]} is no multiple of {self.window}"
        return x.unflatten(1, (-1, 4)).sum(1)


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(2, 8, 8),)
