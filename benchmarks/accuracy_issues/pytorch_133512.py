"""pytorch #133512: functionalization does not keep the strides of a strided input that is written to.

Blamed: `aten.as_strided_copy`.
"""

import torch


def model(x):
    x.add_(2)
    return torch.as_strided_copy(x, (4,), (2,))  # blamed


def inputs():
    return (torch.arange(16.0)[::2],)
