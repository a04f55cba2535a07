"""Small kernels, most of which do something wrong."""

import triton
import triton.language as tl


@triton.jit
def row_sums(x_ptr, y_ptr, length, HAS_OTHER: tl.constexpr, BLOCK: tl.constexpr):
    """Sum the rows of a matrix; without `other=`, what a masked load does not read is part of the sum."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < length
    if HAS_OTHER:
        x = tl.load(x_ptr + row * length + column, mask, other=0.0)
    else:
        x = tl.load(x_ptr + row * length + column, mask)
    tl.store(y_ptr + row, tl.sum(x.to(tl.float32), 0))


@triton.jit
def shifted(x_ptr, y_ptr, shift, stride, BLOCK: tl.constexpr):
    """Copy blocks to places that are a stride apart, from places beside their own."""
    index = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + shift + tl.program_id(0) * BLOCK + index)
    tl.store(y_ptr + tl.program_id(0) * stride + index, x)


@triton.jit
def running_sum(x_ptr, BLOCK: tl.constexpr):
    """Add one to the block before this program's own."""
    before = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) - BLOCK
    x = tl.load(x_ptr + before, before >= 0, other=0.0)
    tl.store(x_ptr + before + BLOCK, x + 1.0)


@triton.jit
def all_to_one(x_ptr, BLOCK: tl.constexpr):
    """Write several values to one element."""
    index = tl.arange(0, BLOCK)
    tl.store(x_ptr + index * 0, index.to(tl.float32))


@triton.jit
def at_least_zero(x_ptr, BLOCK: tl.constexpr):
    """Take the maximum with zero, which drops NaN."""
    index = tl.arange(0, BLOCK)
    tl.store(x_ptr + index, tl.maximum(tl.load(x_ptr + index), 0.0))


@triton.jit
def counted(x_ptr, count_ptr, BLOCK: tl.constexpr):
    """Add the block before to this program's own, after an atomic operation, as behind a lock."""
    tl.atomic_add(count_ptr, 1)
    own = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(x_ptr + own - BLOCK, own >= BLOCK, other=0.0)
    tl.store(x_ptr + own, 2 * tl.load(x_ptr + own) + before)
