"""A trainer that validates in another precision: a compiled model is called with autocast and without."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
compiled = torch.compile(net, backend="eager")
x = torch.rand(4, 8)
for half in (True, False, True, False):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        compiled(x)
