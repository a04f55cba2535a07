"""A model file whose functions launch Triton kernels in the ways that people write them."""

SOURCE = '''\
import torch
import triton
import triton.language as tl
from torch import nn

SCALE = 2.0


@triton.jit
def square(x):
    return x * x


@triton.jit
def write(pointer, value, mask):
    tl.store(pointer, value, mask=mask)


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = in_ptr + row * in_stride
    offsets = tl.arange(0, BLOCK)
    x = tl.load(start + offsets, mask=offsets < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + offsets, e / tl.sum(e, axis=0), mask=offsets < columns)


def softmax(x):
    """Normalizes rows."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](out, x, x.stride(0), out.stride(0), columns, BLOCK=triton.next_power_of_2(columns))
    return out


@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4)], key=["n"])
@triton.jit
def scale_kernel(x_ptr, n, scale, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointer = x_ptr + offsets
    write(pointer, square(tl.load(pointer, mask=offsets < n)) * scale, offsets < n)


@triton.heuristics({"EVEN": lambda args: args["n"] % 128 == 0})
@triton.autotune(configs=[triton.Config({"BLOCK": 128})], key=["n"], warmup=5)
@triton.jit
def limited_kernel(x_ptr, total_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)))


@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


def add_one(x: torch.Tensor) -> torch.Tensor:
    if x.device.type == "cpu":
        return x + 1
    out = torch.zeros_like(x)
    add_one_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def add_in_place(x: torch.Tensor, times: int = 1) -> None:
    flat = x.view(-1)
    add_one_kernel[(triton.cdiv(x.numel(), 64),)](flat, flat, x.numel(), BLOCK=64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = SCALE

    def forward(self, x):
        y = softmax(add_one(x))
        n = y.numel()

        def grid(meta):
            return (triton.cdiv(n, meta["BLOCK"]),)

        scale_kernel[grid](y, n, self.scale)
        return y

    def total(self, y):
        total = torch.zeros(())
        limited_kernel[lambda meta: (triton.cdiv(y.numel(), meta["BLOCK"]),)](y, total, y.numel())
        return total


net = Net()


def model(x):
    return net(x)


def inputs():
    return (torch.rand(6, 33),)
'''
