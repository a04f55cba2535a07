"""A GELU layer as a custom operator: torch.library.triton_op, with a gradient and a FLOP formula.

What ctrace finds: verdict compiled, one graph, no break. torch.compile looks into a `triton_op`, on every device. On a
GPU its kernel is a node of the graph, shown as yours, with `out_ptr` as the one tensor that it writes, and with
`--train` a second kernel in the backward graph. On a CPU the kernel of `register_kernel("cpu")` runs only outside of
torch.compile; a compiled region takes the function of the operator itself, so that has to ask for the device too, as
`gelu` does here. Without that line, compiling on a CPU ends with "0 active drivers".
With `--target h100` both kernels are shown on a machine without a GPU too.
"""

import math

import torch
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton
from torch.utils.flop_counter import register_flop_formula

try:
    import triton
    import triton.language as tl
except ImportError:  # triton has no wheel for every platform, and the CPU path does without
    triton = None

BATCH, WIDTH = 32, 256
BLOCK_SIZE = 1024
DEVICE = "cuda" if triton and torch.cuda.is_available() else "cpu"
FLOPS_PER_ELEMENT = 4

if triton:

    @triton.jit
    def sigmoid_gelu_kernel(x_ptr, out_ptr, size, block: tl.constexpr):
        """Writes x * sigmoid(1.702 * x) for the `block` elements of this program."""
        offsets = tl.program_id(0) * block + tl.arange(0, block)
        mask = offsets < size
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x * tl.sigmoid(1.702 * x), mask=mask)

    @triton.jit
    def sigmoid_gelu_backward_kernel(grad_ptr, x_ptr, out_ptr, size, block: tl.constexpr):
        """Writes the gradient of the above for the `block` elements of this program."""
        offsets = tl.program_id(0) * block + tl.arange(0, block)
        mask = offsets < size
        x = tl.load(x_ptr + offsets, mask=mask)
        gate = tl.sigmoid(1.702 * x)
        grad = tl.load(grad_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, grad * (gate + 1.702 * x * gate * (1 - gate)), mask=mask)


@triton_op("ctrace_samples::gelu", mutates_args=())
def gelu(x: Tensor) -> Tensor:
    """Applies GELU, as x * sigmoid(1.702 * x), to a contiguous tensor."""
    if not x.is_cuda:
        return on_cpu(x)
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK_SIZE),)
    wrap_triton(sigmoid_gelu_kernel)[grid](x, out, x.numel(), block=BLOCK_SIZE)
    return out


@triton_op("ctrace_samples::gelu_backward", mutates_args=())
def gelu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Multiplies `grad` with the derivative at `x`."""
    if not x.is_cuda:
        gate = torch.sigmoid(1.702 * x)
        return grad * (gate + 1.702 * x * gate * (1 - gate))
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK_SIZE),)
    wrap_triton(sigmoid_gelu_backward_kernel)[grid](grad, x, out, x.numel(), block=BLOCK_SIZE)
    return out


@gelu.register_kernel("cpu")
def on_cpu(x: Tensor) -> Tensor:
    """The same in plain torch."""
    return x * torch.sigmoid(1.702 * x)


def save(ctx, inputs, output) -> None:
    """Keeps what the gradient needs."""
    ctx.save_for_backward(*inputs)


def differentiate(ctx, grad: Tensor) -> Tensor:
    """Calls the operator of the gradient."""
    return gelu_backward(grad.contiguous(), *ctx.saved_tensors)


gelu.register_autograd(differentiate, setup_context=save)


@register_flop_formula(torch.ops.ctrace_samples.gelu)
def count(x_shape, *_args, **_kwargs) -> int:
    """Counts the floating-point operations of a call."""
    return FLOPS_PER_ELEMENT * math.prod(x_shape)


class GeluLayer(nn.Module):
    """A linear layer and the operator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return gelu(self.linear(x))


def model() -> nn.Module:
    return GeluLayer(WIDTH).to(DEVICE)


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH, device=DEVICE),)
