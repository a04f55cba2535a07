"""A triplet loss with a miner."""

import torch
from pytorch_metric_learning import losses, miners

PACKAGES = ("pytorch-metric-learning", "scikit-learn")
TRAIN = True


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 4)
        self.miner = miners.MultiSimilarityMiner()
        self.loss = losses.TripletMarginLoss()

    def forward(self, x, labels):
        embedded = self.net(x)
        return self.loss(embedded, labels, self.miner(embedded, labels))


torch.manual_seed(0)
model = Loss()


def inputs():
    torch.manual_seed(1)
    return torch.rand(12, 8), torch.randint(0, 3, (12,))
