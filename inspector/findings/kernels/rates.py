"""Peak arithmetic rates of GPUs in operations per second, by compute capability, number format and clock.

Sources of the operations per cycle and multiprocessor: NVIDIA's white papers on Volta, Turing, Ampere (GA100 and
GA102), Ada and Hopper, checked against the data sheets of T4, V100, A100, A10, L4, L40S and H100; for Blackwell, the
data sheet of HGX B200 and XLA's specification (xla/backends/gpu/target_config/specs/b200.txtpb). Rates are without
sparsity; a multiply-add counts as two operations. The clock is the maximum that the driver reports: an upper bound, not
a typical value.

Compute how many blocks of a kernel fit on a multiprocessor of an NVIDIA GPU, and what limits them.

Source: CUDA C++ Programming Guide, "Compute Capabilities", and the rules of CUDA's calculator (cuda_occupancy.h).
This is the theoretical occupancy: the number of blocks that run at a time also depends on the size of the grid.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.facts.target_facts import Basis, Multiprocessor
from ctrace.inspector.knowledge.gpus.gpu import FORMATS

_VECTOR: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float32": 128, "float64": 64},
    (7, 5): {"float32": 128, "float64": 4},
    (8, 0): {"float32": 128, "float64": 64},
    (8, 6): {"float32": 256, "float64": 4},
    (8, 9): {"float32": 256, "float64": 4},
    (9, 0): {"float32": 256, "float64": 128},
    (10, 0): {"float32": 256, "float64": 128},
}
"""Operations per cycle of a multiprocessor's vector units; there, Triton computes shorter formats as float32."""
_MATRIX: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"float16": 1024},
    (7, 5): {"float16": 1024},
    (8, 0): {"float16": 2048, "bfloat16": 2048, "tf32": 1024, "float64": 128},
    (8, 6): {"float16": 1024, "bfloat16": 1024, "tf32": 512},
    (8, 9): {"float16": 1024, "bfloat16": 1024, "tf32": 512, "float8": 2048},
    (9, 0): {"float16": 4096, "bfloat16": 4096, "tf32": 2048, "float8": 8192, "float64": 256},
    (10, 0): {"float16": 8192, "bfloat16": 8192, "tf32": 4096, "float8": 16384, "float64": 128},
}
"""Operations per cycle of a multiprocessor's Tensor Cores."""


def most_operations(gpu: Gpu, dtypes: Iterable[str], *, products: bool, tf32: bool) -> float | None:
    """Return the peak operations per second on values of these formats, or None if not known.

    A value from a data sheet takes precedence over one computed from units and clock. With `products`, Tensor Cores
    count; with `tf32`, they also count for float32.
    """
    found: list[float | None] = []
    for dtype in dtypes:
        if dtype.startswith(("float", "bfloat")):
            found.append(vector_rate(gpu, "float64" if dtype == "float64" else "float32"))
        if products and (format_ := _format(dtype, tf32=tf32)):
            found.append(matrix_rate(gpu, format_))
    if None in found:
        return None
    return max((rate for rate in found if rate is not None), default=0) or None


def matrix_rate(gpu: Gpu, format_: str) -> float | None:
    """Return the peak operations per second of the Tensor Cores; 0 if the GPU has none, None if not known."""
    if format_ in gpu.rates:
        return gpu.rates[format_]
    return _computed(_MATRIX, gpu, format_)


def vector_rate(gpu: Gpu, format_: str) -> float | None:
    """Return the peak operations per second of the vector units, or None if not known."""
    if format_ in gpu.vector_rates:
        return gpu.vector_rates[format_]
    return _computed(_VECTOR, gpu, format_)


def peaks_by(gpu: Gpu) -> str:
    """Describe where the peak rates come from."""
    if not gpu.rates and not gpu.vector_rates:
        return "its units and clock"
    return "the data sheet, and its units and clock for formats that the sheet omits"


def _computed(units: dict[tuple[int, int], dict[str, int]], gpu: Gpu, format_: str) -> float | None:
    of_one = units.get(gpu.capability)
    if of_one is None or gpu.clock is None:
        return None
    return of_one.get(format_, 0) * gpu.processors * gpu.clock


def _format(dtype: str, *, tf32: bool) -> str:
    """Return the Tensor Core format for a dtype; empty if they do not support it."""
    if dtype == "float32":
        return "tf32" if tf32 else ""
    if dtype.startswith("float8"):
        return "float8"
    return dtype if dtype in FORMATS else ""


_BLOCKS = {
    (7, 0): 32, (7, 2): 32, (7, 5): 16, (8, 0): 32, (8, 6): 16, (8, 7): 16, (8, 9): 24, (9, 0): 32,
    (10, 0): 32, (10, 3): 32, (12, 0): 24, (12, 1): 24,
}  # fmt: skip
"""Maximum blocks per multiprocessor, by compute capability; torch does not report them."""
_SCHEDULERS = 4
"""Partitions of a multiprocessor, each with a share of the registers (from capability 7.0 on)."""
_REGISTER_UNIT = 256
"""The unit in which registers are allocated to a warp."""
_THREAD_REGISTERS = 255
"""Maximum registers per thread."""


class OccupancyLimit(StrEnum):
    """A resource of which one more block would need too much."""

    REGISTERS = "registers"
    SHARED = "shared memory"
    THREADS = "threads"
    BLOCKS = "blocks"


class Occupancy(Struct, frozen=True):
    """How many blocks of one kernel can be resident on a multiprocessor."""

    JSON: ClassVar[str] = "basis=BASIS blocks warps share limited_by=limits"
    blocks: int
    warps: int
    most_warps: int
    """How many warps of any kernel can be resident at most."""
    limits: tuple[OccupancyLimit, ...]
    """The resources that limit the number of blocks; several if they tie."""
    BASIS: ClassVar[Basis] = Basis.COMPUTED

    @property
    def share(self) -> float:
        """Resident warps divided by the maximum, from 0 to 1."""
        return self.warps / self.most_warps


def occupancy(of: Multiprocessor, *, registers: int, warps: int, shared: int) -> Occupancy | None:
    """Return the occupancy for `registers` per thread, `warps` per block and `shared` bytes per block.

    Return None if the rules for this GPU are not known, or if no kernel can have these numbers.
    """
    most = _BLOCKS.get(of.capability)
    if most is None or not 0 < registers <= _THREAD_REGISTERS or warps < 1 or shared < 0 or of.warp < 1:
        return None
    fit = {
        OccupancyLimit.REGISTERS: _by_registers(of, registers, warps),
        OccupancyLimit.SHARED: of.shared // _shared_of(of.capability, shared),
        OccupancyLimit.THREADS: of.threads // of.warp // warps,
        OccupancyLimit.BLOCKS: most,
    }
    blocks = min(fit.values())
    limits = tuple(limit for limit, number in fit.items() if number == blocks)
    if of.threads >= of.warp:
        return Occupancy(blocks, blocks * warps, of.threads // of.warp, limits)
    return None


def _by_registers(of: Multiprocessor, registers: int, warps: int) -> int:
    a_warp = _rounded_up(registers * of.warp, _REGISTER_UNIT)
    return of.registers // _SCHEDULERS // a_warp * _SCHEDULERS // warps


def _shared_of(capability: tuple[int, int], shared: int) -> int:
    """Return the shared memory that a block occupies: from capability 8.0 on, CUDA reserves 1 KiB per block."""
    return max(_rounded_up(shared + 1024, 128) if capability >= (8, 0) else _rounded_up(shared, 256), 1)


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
