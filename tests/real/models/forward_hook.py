"""Forward hooks that keep statistics of activations as Python numbers."""

import torch

STATS = {}


def remember(name):
    def hook(module, args, output):
        STATS[name] = output.abs().mean().item()

    return hook


def model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    net[0].register_forward_hook(remember("first"))
    net[2].register_forward_hook(remember("last"))
    return net.eval()


def inputs():
    return (torch.rand(4, 8),)
