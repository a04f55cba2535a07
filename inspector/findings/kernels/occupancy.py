"""Compute how many blocks of a kernel fit on a multiprocessor of an NVIDIA GPU, and what limits them.

Source: CUDA C++ Programming Guide, "Compute Capabilities", and the rules of CUDA's calculator (cuda_occupancy.h).
This is the theoretical occupancy: the number of blocks that run at a time also depends on the size of the grid.
"""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.target_facts import Basis, Multiprocessor

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
