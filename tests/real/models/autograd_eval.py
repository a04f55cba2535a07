"""An eval model that is called with gradients on: a custom function's backward cannot be traced."""

import torch


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.round(x / scale) * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        if float(scale) > 1:
            print("large scale")
        return grad, None


class Net(torch.nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(layers))
        self.register_buffer("scale", torch.tensor(0.1))

    def forward(self, x):
        for layer in self.layers:
            x = Quantize.apply(layer(x), self.scale)
        return x


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(4, 8),)
