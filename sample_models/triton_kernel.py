"""A residual layer whose add and ReLU are one hand-written Triton kernel on a GPU, and plain torch elsewhere.

ctrace finds: compiled. One graph, no break: Dynamo reads `x.is_cuda` while tracing and keeps one side of the `if`. On a
GPU the kernel is a node of that graph (`triton_kernel_wrapper_mutation`) and Inductor launches it after the matrix
product; on a CPU the other side is traced, and fused by Inductor. The kernel has no gradient, so the layer is frozen.
With `--target h100` the kernel is shown on a machine without a GPU too: `x.is_cuda` is then True while Dynamo traces.
"""

import torch
from torch import Tensor, nn

try:
    import triton
    import triton.language as tl
except ImportError:  # triton has no wheel for every platform, and the CPU path does without
    triton = None

BATCH, WIDTH = 32, 256
BLOCK_SIZE = 1024
DEVICE = "cuda" if triton and torch.cuda.is_available() else "cpu"

if triton:

    @triton.jit
    def add_relu_kernel(x_ptr, y_ptr, out_ptr, size, block: tl.constexpr):
        """Writes max(x + y, 0) for the `block` elements of this program."""
        offsets = tl.program_id(0) * block + tl.arange(0, block)
        mask = offsets < size
        total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, tl.maximum(total, 0.0), mask=mask)


def add_relu(x: Tensor, y: Tensor) -> Tensor:
    """Adds two contiguous tensors of one shape and clamps the sum at zero."""
    if not x.is_cuda:
        return torch.relu(x + y)
    out = torch.empty_like(x)
    grid = (triton.cdiv(out.numel(), BLOCK_SIZE),)
    add_relu_kernel[grid](x, y, out, out.numel(), block=BLOCK_SIZE)
    return out


class ResidualLayer(nn.Module):
    """A linear layer added to its input before the activation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return add_relu(self.linear(x), x)


def model() -> nn.Module:
    return ResidualLayer(WIDTH).to(DEVICE).requires_grad_(False).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH, device=DEVICE),)
