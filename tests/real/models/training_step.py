"""The whole training step is compiled, with backward and the optimizer in it."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
x, y = torch.rand(16, 8), torch.rand(16, 1)


def step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


step = torch.compile(step, backend="eager")
for _ in range(4):
    step(x, y)
