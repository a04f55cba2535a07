"""A healthy model: one graph, nothing to change."""

import torch


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))


def inputs():
    return (torch.rand(4, 8),)
