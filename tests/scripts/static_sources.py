"""Sizes and integers that TORCH_COMPILE_STATIC_SOURCES keeps static, from torch 2.15 on."""

import torch

torch.compiler.config.static_sources = "L['x']:0,L['n'],L['settings'].n,L['power']"


class Settings:
    n = 2


@torch.compile(backend="eager", dynamic=True)
def f(x, n, settings):
    return x * n + settings.n


def powered(power):
    return torch.compile(lambda x: x**power, backend="eager", dynamic=True)


settings = Settings()
for size, n, settings.n in ((4, 2, 2), (5, 2, 2), (5, 3, 2), (5, 3, 3)):
    f(torch.ones(size, 3), n, settings)
for power in (2, 3):
    powered(power)(torch.ones(4))
