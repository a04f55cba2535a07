"""A LightningModule whose step logs."""

import pytorch_lightning
import torch

PACKAGES = ("pytorch-lightning", "lightning-utilities", "torchmetrics")
TRAIN = True


class Net(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 3)

    def forward(self, x, labels):
        loss = torch.nn.functional.cross_entropy(self.net(x), labels)
        self.log("loss", loss)
        return loss


torch.manual_seed(0)
model = Net()


def inputs():
    torch.manual_seed(1)
    return torch.rand(4, 8), torch.randint(0, 3, (4,))
