"""A compiled optimizer step, whose learning rate a scheduler changes as a Python number."""

import torch

torch.manual_seed(0)
net = torch.nn.Linear(8, 4)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


@torch.compile(backend="eager")
def step():
    optimizer.step()


for _ in range(5):
    net(torch.rand(3, 8)).sum().backward()
    step()
    scheduler.step()
    optimizer.zero_grad()
