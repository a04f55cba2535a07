"""A training loop over a DataLoader whose last batch has one sample: size 1 has a separate graph."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
compiled = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.rand(17, 8), torch.rand(17, 1)), batch_size=8)
for _ in range(2):
    for x, y in loader:
        torch.nn.functional.mse_loss(compiled(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
