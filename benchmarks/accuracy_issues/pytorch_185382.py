"""pytorch #185382: a step of Adam that reads its counter, in a loop.

Blamed: `aten.addcdiv`.
"""

import torch


def _step(param, grad, m, v, count):
    count.add_(1)
    m.mul_(0.9).add_(grad, alpha=0.1)
    v.mul_(0.99).addcmul_(grad, grad, value=0.01)
    t = count.item()
    denominator = (v.sqrt() / ((1 - 0.99**t) ** 0.5)).add_(1e-8)
    param.addcdiv_(m, denominator, value=-0.01 / (1 - 0.9**t))  # blamed


def model(param, grad):
    p = param.clone()
    m, v, count = torch.zeros_like(p), torch.zeros_like(p), torch.zeros(())
    for _ in range(5):
        _step(p, grad, m, v, count)
    return p


def inputs():
    torch.manual_seed(0)
    return torch.randn(12), torch.randn(12)
