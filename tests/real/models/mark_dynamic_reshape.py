"""A batch that is marked as dynamic, but reshaped by a layer to a size fixed when the model was made."""

import torch


class Net(torch.nn.Module):
    def __init__(self, batch=4):
        super().__init__()
        self.batch = batch
        self.lin = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.lin(x).reshape(self.batch, -1, 8).mean(1)


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    x = torch.rand(4, 6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    return (x,)
