"""A classifier whose linear layers are quantized dynamically."""

import warnings

import torch

warnings.filterwarnings("ignore", category=DeprecationWarning)


def model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    return torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear}, dtype=torch.qint8)


def inputs():
    return (torch.rand(4, 8),)
