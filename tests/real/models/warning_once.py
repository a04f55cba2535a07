"""A warning that is logged once, by a cached function as in transformers."""

import functools
import logging

import torch

logger = logging.getLogger("real")


@functools.lru_cache(None)
def warning_once(self, *args, **kwargs):
    self.warning(*args, **kwargs)


logging.Logger.warning_once = warning_once


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 8)

    def forward(self, x, mask=None):
        x = self.a(x)
        if mask is None:
            logger.warning_once("No mask was given: padding is attended to.")
        return self.b(x.relu())


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(4, 8),)
