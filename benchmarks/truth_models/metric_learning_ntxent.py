"""A contrastive loss."""

import torch
from pytorch_metric_learning.losses import NTXentLoss

PACKAGES = ("pytorch-metric-learning", "scikit-learn")

model = NTXentLoss(temperature=0.1)


def inputs():
    torch.manual_seed(1)
    return torch.rand(8, 16), torch.arange(8) // 2
