"""The models and edits of wrong_kernels.py. CTRACE_BENCH_MODEL names the model, CTRACE_BENCH_DEVICE its device.

An edit is a pattern in a file of a package and what replaces it, once or, in `Edit.every`, everywhere.
"""

import os
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

DEVICE = os.environ.get("CTRACE_BENCH_DEVICE", "cpu")


def gelu(x: Tensor) -> Tensor:
    """Sizes that blocks divide."""
    return functional.gelu(x) * 2


def line(x: Tensor) -> Tensor:
    """One dimension, whose length may be odd."""
    return torch.sin(x) + 0.25


def softmax(x: Tensor) -> Tensor:
    """Rows that need a mask."""
    return torch.softmax(x * 0.5, -1)


def norm(x: Tensor, w: Tensor) -> Tensor:
    """A mean, a constant beside it, and a second input."""
    return functional.rms_norm(x, (x.shape[-1],), w, 1e-6)


def rows(x: Tensor) -> Tensor:
    """Two loops over rows that are longer than a block."""
    return (x - x.mean(-1, keepdim=True)).relu()


def transpose(x: Tensor, y: Tensor) -> Tensor:
    """A grid of two dimensions."""
    return (x.t() + y).contiguous()


def gather(w: Tensor, i: Tensor) -> Tensor:
    """An index that is data."""
    return w[i] * 3 + 1


def half(x: Tensor, y: Tensor) -> Tensor:
    """Inputs of bfloat16, arithmetic in float32."""
    return (x * y + x).sigmoid()


def split(x: Tensor) -> Tensor:
    """A reduction in two kernels."""
    return (x * x).sum()


def extremes(x: Tensor) -> Tensor:
    """A maximum and a minimum, which keep NaN."""
    return x.amax(-1) + x.amin(-1)


def two(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two outputs."""
    y = x.exp()
    return y, y.sum(-1)


SHAPES: dict[str, list[tuple[int, ...]]] = {
    "gelu": [(32, 512)],
    "line": [(2048,)],
    "softmax": [(30, 60)],
    "norm": [(24, 96), (96,)],
    "rows": [(6, 3000)],
    "transpose": [(40, 70), (70, 40)],
    "gather": [(50, 24), (33,)],
    "half": [(16, 128), (16, 128)],
    "split": [(2000, 100)],
    "extremes": [(20, 77)],
    "two": [(12, 200)],
}
DYNAMIC = frozenset(("norm", "transpose"))
"""Models that are captured with dynamic sizes."""
model = globals()[os.environ.get("CTRACE_BENCH_MODEL", "gelu")]


def inputs() -> tuple[Tensor, ...]:
    """Return the inputs of the chosen model."""
    torch.manual_seed(0)
    name = model.__name__
    dtype = torch.bfloat16 if name == "half" else torch.float32
    made = [torch.randn(shape, dtype=dtype, device=DEVICE) for shape in SHAPES[name]]
    if name == "gather":
        made[1] = torch.randint(0, 50, SHAPES[name][1], device=DEVICE)
    return tuple(made)


@dataclass(frozen=True)
class Edit:
    """A change of a package."""

    name: str
    model: str
    pattern: str
    by: str
    file: str = "kernel.py"
    every: bool = False
    is_endless: bool = False


_STORE = r"tl\.store\((\w+) \+ (.*), (\w+), (\w*mask.*)\)"
_LOAD = r"( +)(\w+) = (tl\.load\(.*\))"
_FIRST = r"(\n    xmask = xindex < xnumel)"

WRONG = (
    # masks and tails
    Edit("mask: none", "half", r"xindex < xnumel", "xindex >= 0"),
    Edit("mask: none, length 2048", "line", r"xindex < xnumel", "xindex >= 0"),
    Edit("mask: a constant", "line", r"xindex < xnumel", "xindex < 2048"),
    Edit("mask: a larger constant", "gelu", r"xindex < xnumel", "xindex < 16384"),
    Edit("mask: one short", "line", r"xindex < xnumel", "xindex < xnumel - 1"),
    Edit("mask: one long", "line", r"xindex < xnumel", "xindex <= xnumel"),
    Edit("mask: a multiple of 8", "line", r"xindex < xnumel", "xindex < xnumel // 8 * 8"),
    Edit("mask: none along rows", "softmax", r"xindex < xnumel", "xindex >= 0"),
    Edit("mask: one short along the reduction", "norm", r"r0_index < r0_numel", "r0_index < r0_numel - 1"),
    Edit("mask: none along the reduction", "softmax", r"r0_index < r0_numel", "r0_index >= 0"),
    Edit("mask: none along y", "transpose", r"yindex < ynumel", "yindex >= 0"),
    Edit("mask: the reduction's, without where", "two", r"tl\.where\([^,]+, ([^,]+), [^)]+\)", r"\1 + 0"),
    # sizes
    Edit("sizes: odd ones", "line", r"xindex < xnumel", "xindex < xnumel // 2 * 2"),
    Edit("sizes: odd rows", "extremes", r"xindex < xnumel", "xindex < xnumel // 2 * 2"),
    Edit("sizes: the length of the run", "norm", r"total / \w+", "total / 96.0"),
    Edit("sizes: a small one", "line", _LOAD, r"\1\2 = \3 + tl.where(xnumel < 8, 1.0, 0.0)"),
    Edit("sizes: more than 4096", "line", _LOAD, r"\1\2 = \3 + tl.where(xindex > 4095, 1.0, 0.0)"),
    # configurations
    Edit("configuration: a constant block", "gelu", r"tl\.program_id\(0\) \* XBLOCK", "tl.program_id(0) * 256"),
    Edit("configuration: rows of one", "extremes", r"tl\.program_id\(0\) \* XBLOCK", "tl.program_id(0)"),
    Edit("configuration: a constant step", "rows", r"r0_numel, R0_BLOCK\)", "r0_numel, 4096)"),
    Edit("configuration: constant columns", "transpose", r"tl\.program_id\(0\) \* XBLOCK", "tl.program_id(0) * 32"),
    # values
    Edit("value: NaN", "gelu", _LOAD, r"\g<0>\n\1\2 = tl.where(\2 != \2, 0.0, \2)"),
    Edit("value: NaN in extremes", "extremes", r"tl\.reduce\(a, dim, (m\w\w)imum\)", r"tl.\1(a, dim)", every=True),
    Edit("value: NaN in relu", "rows", r"= maximum\((\w+), (\w+)\)", r"= tl.where(\2 > 0, \2, 0.0)"),
    Edit("value: infinity", "line", _LOAD, r'\g<0>\n\1\2 = tl.where(tl.abs(\2) == float("inf"), 0.0, \2)'),
    Edit("value: infinity in bfloat16", "half", _LOAD + r"(\S*)",
         r'\g<0>\n\1\2 = tl.where(tl.abs(\2) == float("inf"), 0.0, \2)'),
    Edit("value: zero", "line", _LOAD, r"\g<0>\n\1\2 = tl.where(\2 == 0, 1.0, \2)"),
    Edit("value: a rare one", "gelu", _LOAD, r"\g<0>\n\1\2 = tl.where(\2 > 3.0, 3.0, \2)"),
    Edit("value: no maximum", "softmax", r"difference(_2)? = (\w+) - \w+", r"difference\1 = \2", every=True),
    Edit("value: epsilon", "norm", r"9\.99999997\d+e-07", "1e-05"),
    # no end
    Edit("endless", "gelu", _FIRST,
         r"\1\n    turn = 0\n    while turn >= 0:\n        turn = turn * 1", is_endless=True),
    Edit("endless: for odd sizes", "line", _FIRST,
         r"\1\n    turn = 0\n    while (tl.load(x_ptr, volatile=True) < 1e30) & (xnumel % 2 == 1):\n        turn += 1",
         is_endless=True),
    # memory
    Edit("memory: writes behind", "line", _STORE, r"\g<0>\n    tl.store(\1 + xnumel + \2, \3, \4)"),
    Edit("memory: writes before", "line", _STORE, r"\g<0>\n    tl.store(\1 - 8 + \2, \3, (\4) & (xindex < 8))"),
    Edit("memory: reads behind, unused", "line", _LOAD, r"\g<0>\n\1beside = tl.load(x_ptr + 1 + xindex, xmask)\n"
         r"\1\2 = tl.where(beside == 12345.0, 0.0, \2)"),
    Edit("memory: writes to an input", "gelu", _STORE, r"\g<0>\n    tl.store(x_ptr + \2, \3, \4)"),
    Edit("memory: a wrong index", "gather", r"w_ptr \+ \((\w+)", r"w_ptr + (1 + \1"),
    Edit("memory: an output unwritten", "two", r"\n +tl\.store\(exp_ptr.*", ""),
    # races
    Edit("race: two programs, one place", "line", _STORE, r"tl.store(\1 + (\2) % XBLOCK, \3, \4)"),
    Edit("race: another program's result", "line", _STORE,
         r"\g<0>\n    before = tl.load(\1 + xindex - XBLOCK, xmask & (xindex >= XBLOCK), other=0.0)\n"
         r"    tl.store(\1 + \2, \3 + before * 0.0, \4)"),
    # the operator
    Edit("dtype: arithmetic in float16", "line", _LOAD, r"\1\2 = \3.to(tl.float16).to(tl.float32)"),
    Edit("dtype: an output of float16", "line", r"dtype=torch\.float32", "dtype=torch.float16", file="op.py"),
    Edit("grid: no last block", "line", r"triton\.cdiv\((.*), (meta\[.*?\])\)", r"(\1) // \2", file="op.py"),
    Edit("several kernels: a part is missing", "split", r"r0_index < r0_numel", "r0_index < r0_numel - 1"),
)  # fmt: skip

RIGHT = (
    *(Edit(f"as it is: {name}", name, r"\Z", "\n") for name in ("gelu", "line", "softmax", "rows", "gather", "half")),
    Edit("another order of a product", "gelu", r"(\w+) \* 0\.5", r"0.5 * \1"),
    Edit("an addition for a product", "gelu", r"(\w+) \* 2\.0", r"\1 + \1"),
    Edit("a mask in other words", "line", r"xindex < xnumel", "(xindex < xnumel) & (xindex >= 0)"),
    Edit("a mask that is never needed", "norm", r"r0_index < r0_numel", "(r0_index < r0_numel) & (r0_index >= 0)"),
    Edit("a load with another value", "line", r"(tl\.load\(.*), xmask", r"\1, xmask, other=7.0"),
    Edit("more configurations", "line", r"CONFIGS = \[",
         "CONFIGS = [triton.Config({'XBLOCK': 64}, num_warps=1), triton.Config({'XBLOCK': 1024}, num_warps=8),"),
    Edit("a barrier", "line", _STORE, r"tl.debug_barrier()\n    \g<0>"),
    Edit("a hint", "line", _FIRST, r"\1\n    xoffset = tl.multiple_of(xoffset, XBLOCK)"),
    Edit("a program too many", "line", r"(triton\.cdiv\(.*?\]\))", r"\1 + 1", file="op.py"),
    Edit("a root for an inverse root", "norm", r"tl\.rsqrt\((\w+)\)", r"1.0 / tl.sqrt(\1)"),
    Edit("exp2", "two", r"tl\.exp\((\w+)\)", r"tl.exp2(\1 * 1.4426950408889634)"),
    Edit("an inverse once", "softmax", r"(\w+) / total", r"\1 * (1.0 / total)"),
    Edit("a store twice", "line", _STORE, r"\g<0>\n    \g<0>"),
    Edit("relu in other words", "rows", r"= maximum\((\w+), (\w+)\)", r"= tl.where(\2 <= 0, 0.0, \2)"),
    Edit("a maximum written out", "extremes", r"return tl\.maximum\(a, b, propagate_nan=tl\.PropagateNan\.ALL\)",
         "return tl.where((a > b) | (a != a), a, b)"),
)  # fmt: skip
