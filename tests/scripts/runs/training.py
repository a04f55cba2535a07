"""A training loop whose last batch is smaller, and which logs the loss."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.compile
def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = torch.nn.functional.cross_entropy(net(x), y)
    print("loss:", loss.item())
    return loss * 1.0


for size in (8, 8, 5):
    optimizer.zero_grad()
    step(torch.rand(size, 16), torch.randint(4, (size,))).backward()
    optimizer.step()
