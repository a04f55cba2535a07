"""A Mamba model with a parallel scan."""

import torch
from mambapy.mamba import Mamba, MambaConfig

PACKAGES = ("mambapy",)

torch.manual_seed(0)
model = Mamba(MambaConfig(d_model=16, n_layers=2)).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 16, 16),)
