"""TabNet for tables."""

import torch
from pytorch_tabnet.tab_network import TabNet

PACKAGES = ("pytorch-tabnet", "scipy", "scikit-learn")

torch.manual_seed(0)
model = TabNet(input_dim=10, output_dim=3, n_d=8, n_a=8, n_steps=2, group_attention_matrix=torch.eye(10)).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(16, 10),)
