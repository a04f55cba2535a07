"""pytorch #198057: the remainder of an infinite divisor, or a large quotient.

Blamed: `aten.remainder`, in vectorized C++.
"""

import torch


def model(a, b):
    return torch.remainder(a, b)  # blamed


def inputs():
    inf = float("inf")
    a = torch.tensor([3.5, -2.5, 1.0, 1e19, 4294967296.0, 9.0, 2.0, -1.0] * 4)
    return a, torch.tensor([inf, -inf, inf, 7.0, 5.0, 0.6, 0.3, 1.0] * 4)
