"""A model called in training mode, then in evaluation mode: one recompile, as expected."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
compiled = torch.compile(model, backend="eager")
x = torch.ones(2, 3)

model.train()
compiled(x)
model.eval()
compiled(x)
model.train()
compiled(x)
