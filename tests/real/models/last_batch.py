"""An evaluation over a DataLoader whose last batch is short."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
compiled = torch.compile(net, backend="eager")
data = TensorDataset(torch.rand(19, 8))
loader = DataLoader(data, batch_size=8)
with torch.no_grad():
    for _ in range(2):
        for (x,) in loader:
            compiled(x)
