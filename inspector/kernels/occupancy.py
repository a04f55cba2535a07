"""How many blocks of a kernel fit on a multiprocessor of an NVIDIA GPU, and what sets that limit. Pure arithmetic.

Source: CUDA C++ Programming Guide, "Compute Capabilities", and the rules of CUDA's own calculator (cuda_occupancy.h).
It is a limit: how many blocks really run at a time also depends on how many there are.
"""

from dataclasses import dataclass
from enum import StrEnum

from ctrace.inspector.model.target import Multiprocessor

_BLOCKS = {
    (7, 0): 32, (7, 2): 32, (7, 5): 16, (8, 0): 32, (8, 6): 16, (8, 7): 16, (8, 9): 24, (9, 0): 32,
    (10, 0): 32, (10, 3): 32, (12, 0): 24, (12, 1): 24,
}  # fmt: skip
"""Most blocks on a multiprocessor, by compute capability; torch does not tell them."""
_SCHEDULERS = 4
"""Parts of a multiprocessor, each with its own share of the registers (from capability 7.0 on)."""
_REGISTER_UNIT = 256
"""Registers are given to a warp in steps of so many."""
_THREAD_REGISTERS = 255
"""More no thread can have."""


class Limit(StrEnum):
    """What keeps one more block from fitting."""

    REGISTERS = "registers"
    SHARED = "shared memory"
    THREADS = "threads"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The most blocks of one kernel that a multiprocessor holds at a time."""

    blocks: int
    warps: int
    most_warps: int
    """That a multiprocessor holds of any kernel."""
    limits: tuple[Limit, ...]
    """What sets it; several where they agree."""

    @property
    def share(self) -> float:
        """Warps held, of those that there could be: 0 to 1."""
        return self.warps / self.most_warps


def occupancy(of: Multiprocessor, *, registers: int, warps: int, shared: int) -> Occupancy | None:
    """Say how many blocks fit: `registers` a thread, `warps` a block, `shared` bytes a block.

    None: the rules of such a GPU are not known here, or the numbers are not those of a kernel.
    """
    most = _BLOCKS.get(of.capability)
    if most is None or not 0 < registers <= _THREAD_REGISTERS or warps < 1 or shared < 0 or of.warp < 1:
        return None
    fit = {
        Limit.REGISTERS: _by_registers(of, registers, warps),
        Limit.SHARED: of.shared // _shared_of(of.capability, shared),
        Limit.THREADS: of.threads // of.warp // warps,
        Limit.BLOCKS: most,
    }
    blocks = min(fit.values())
    limits = tuple(limit for limit, number in fit.items() if number == blocks)
    return Occupancy(blocks, blocks * warps, of.threads // of.warp, limits) if of.threads >= of.warp else None


def _by_registers(of: Multiprocessor, registers: int, warps: int) -> int:
    a_warp = _rounded_up(registers * of.warp, _REGISTER_UNIT)
    return of.registers // _SCHEDULERS // a_warp * _SCHEDULERS // warps


def _shared_of(capability: tuple[int, int], shared: int) -> int:
    """Give the shared memory that a block takes: from capability 8.0 on the system keeps 1 KiB of each for itself."""
    return max(_rounded_up(shared + 1024, 128) if capability >= (8, 0) else _rounded_up(shared, 256), 1)


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
