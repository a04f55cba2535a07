"""A kernel that needs `other=`: without it, what a masked load does not read is part of the sum."""

import triton
import triton.language as tl


@triton.jit
def row_sums(x_ptr, y_ptr, length, HAS_OTHER: tl.constexpr, BLOCK: tl.constexpr):
    """Sum the rows of a matrix."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < length
    if HAS_OTHER:
        x = tl.load(x_ptr + row * length + column, mask, other=0.0)
    else:
        x = tl.load(x_ptr + row * length + column, mask)
    tl.store(y_ptr + row, tl.sum(x.to(tl.float32), 0))
