"""A model that updates a metric in its forward."""

import torch
from torchmetrics.classification import MulticlassAccuracy

PACKAGES = ("torchmetrics", "lightning-utilities")


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 3)
        self.accuracy = MulticlassAccuracy(num_classes=3)

    def forward(self, x, labels):
        logits = self.net(x)
        return logits, self.accuracy(logits, labels)


torch.manual_seed(0)
model = Classifier().eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(6, 8), torch.randint(0, 3, (6,))
