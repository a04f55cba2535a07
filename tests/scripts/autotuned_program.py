"""A linear layer that torch autotunes on a CPU, as a program."""

import torch
import torch._inductor.config

torch._inductor.config.freezing = True
compiled = torch.compile(torch.nn.Linear(64, 32).eval(), mode="max-autotune-no-cudagraphs")
with torch.no_grad():
    compiled(torch.ones(16, 64))
