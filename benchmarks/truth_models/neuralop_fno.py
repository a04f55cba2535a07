"""A Fourier neural operator."""

import torch
from neuralop.models import FNO

PACKAGES = ("neuraloperator", "tensorly", "tensorly-torch", "opt-einsum")

torch.manual_seed(0)
model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 1, 16, 16),)
