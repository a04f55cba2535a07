"""A linear layer whose weight is a constant of the graph, so that torch has two ways to compute it on a CPU."""

import torch
import torch._inductor.config

torch._inductor.config.freezing = True
torch.set_grad_enabled(False)
model = torch.nn.Linear(64, 32).eval()


def inputs():
    return (torch.ones(16, 64),)
