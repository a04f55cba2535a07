"""A training loop that evaluates between epochs: one graph for each mode is right."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
compiled = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x, y = torch.rand(16, 8), torch.rand(16, 1)
for _ in range(3):
    net.train()
    torch.nn.functional.mse_loss(compiled(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        compiled(x)
