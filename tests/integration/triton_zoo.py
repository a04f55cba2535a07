"""Triton kernels as users write them, and functions that call them; needs triton, no GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton
from torch.utils.flop_counter import register_flop_formula

CONFIGS = [triton.Config({"block": 256}, num_warps=4), triton.Config({"block": 512}, num_warps=8)]


@triton.jit
def double(x_ptr, out_ptr, size, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < size) * 2, mask=at < size)


@triton.jit
def double_inplace(x_ptr, size, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < size) * 2, mask=at < size)


@triton.jit
def double_by_assembly(x_ptr, out_ptr, size, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < size)
    y = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=r,r", [x], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(out_ptr + at, y, mask=at < size)


@triton.autotune(configs=CONFIGS, key=["size"])
@triton.jit
def double_tuned(x_ptr, out_ptr, size, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < size) * 2, mask=at < size)


@triton.autotune(configs=CONFIGS, key=["size"])
@triton.heuristics({"even": lambda args: args["size"] % args["block"] == 0})
@triton.jit
def double_even(x_ptr, out_ptr, size, even: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    if even:
        tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)
    else:
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < size) * 2, mask=at < size)


@triton.autotune(configs=[triton.Config({"block": 256}, pre_hook=lambda args: None)], key=[])
@triton.jit
def double_hooked(x_ptr, out_ptr, size, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < size) * 2, mask=at < size)


def _grid(x: Tensor):
    return lambda meta: (triton.cdiv(x.numel(), meta["block"]),)


def plain(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    double[_grid(x)](x, out, x.numel(), block=256)
    return out + 1


def with_warps(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    double[_grid(x)](x, out, x.numel(), block=256, num_warps=2)
    return out + 1


def in_place(x: Tensor) -> Tensor:
    y = x + 1
    double_inplace[_grid(y)](y, y.numel(), block=256)
    return y + 1


def by_assembly(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    double_by_assembly[_grid(x)](x, out, x.numel(), block=256)
    return out + 1


def tuned(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    double_tuned[_grid(x)](x, out, x.numel())
    return out + 1


def even(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    double_even[_grid(x)](x, out, x.numel())
    return out + 1


def hooked(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    double_hooked[_grid(x)](x, out, x.numel())
    return out + 1


@triton_op("ctrace_zoo::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(double)[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), block=256)
    return out


@doubled.register_kernel("cpu")
def _(x: Tensor) -> Tensor:
    return x * 2


doubled.register_autograd(lambda ctx, grad: doubled(grad.contiguous()))


@register_flop_formula(torch.ops.ctrace_zoo.doubled)
def _(x_shape, *_args, **_kwargs) -> int:
    return x_shape[0]


def by_op(x: Tensor) -> Tensor:
    return doubled(x) + 1
