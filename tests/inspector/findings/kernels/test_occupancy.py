"""The number of blocks that fit equals hand counts and the result of an H100's driver."""

import pytest

from ctrace.inspector.facts.target_gpu import Multiprocessor
from ctrace.inspector.findings.kernels.built_view import OccupancyLimit, occupancy
from tests.support.built import H100

DRIVER = (
    (6, 4, 0, 16), (11, 8, 0, 8), (12, 2, 0, 32), (13, 2, 8, 32), (18, 2, 32, 32), (18, 4, 0, 16), (20, 8, 0, 8),
    (20, 8, 32, 8), (22, 4, 0, 16), (24, 4, 2048, 16), (26, 4, 256, 16), (26, 8, 0, 8), (26, 16, 64, 4),
    (28, 4, 0, 16), (32, 2, 0, 32), (32, 4, 0, 16), (32, 4, 256, 16), (32, 8, 32, 8), (34, 8, 32, 6),
    (34, 8, 30720, 6), (38, 4, 4096, 12), (40, 8, 24576, 6), (42, 8, 49152, 4), (48, 4, 16384, 10),
    (56, 2, 2048, 18), (58, 4, 16384, 8), (58, 8, 49152, 4), (60, 4, 8192, 8), (62, 8, 49152, 4), (64, 1, 0, 32),
    (64, 2, 64, 16), (69, 4, 122880, 1), (90, 4, 163840, 1), (90, 8, 32768, 2), (92, 4, 36864, 5),
    (94, 4, 36864, 5), (96, 4, 73728, 3), (105, 8, 163840, 1), (144, 4, 196608, 1), (168, 4, 49152, 3),
    (194, 4, 98304, 2),
)  # fmt: skip
"""Registers, warps, shared memory, and the blocks that cuOccupancyMaxActiveBlocksPerMultiprocessor gave (driver 580, H100)."""

A10 = Multiprocessor(capability=(8, 6), registers=65536, threads=1536, shared=102400, warp=32)
T4 = Multiprocessor(capability=(7, 5), registers=65536, threads=1024, shared=65536, warp=32)


@pytest.mark.parametrize(
    ("registers", "warps", "shared", "blocks", "limits"),
    [
        # 32 registers x 32 threads = 1024 a warp; 16384 in each of 4 parts hold 16, so 64 warps: 16 blocks of 4.
        (32, 4, 0, 16, (OccupancyLimit.REGISTERS, OccupancyLimit.THREADS)),
        # 33 registers are rounded up to 40: 1280 a warp, 12 in each part, 48 warps.
        (33, 4, 0, 12, (OccupancyLimit.REGISTERS,)),
        # 64: 2048 a warp, 8 in each part, 32 warps; a block has one, and no more than 32 blocks fit anyway.
        (64, 1, 0, 32, (OccupancyLimit.REGISTERS, OccupancyLimit.BLOCKS)),
        (16, 1, 0, 32, (OccupancyLimit.BLOCKS,)),
        # 255 are rounded up to 256: 8192 a warp, 2 in each part, 8 warps.
        (255, 8, 0, 1, (OccupancyLimit.REGISTERS,)),
        (255, 16, 0, 0, (OccupancyLimit.REGISTERS,)),
        # 64 KiB and the system's 1 KiB are 66560; 233472 hold 3.
        (32, 4, 65536, 3, (OccupancyLimit.SHARED,)),
        (32, 8, 232448, 1, (OccupancyLimit.SHARED,)),
    ],
)
def test_an_h100(registers: int, warps: int, shared: int, blocks: int, limits: tuple[OccupancyLimit, ...]) -> None:
    held = occupancy(H100, registers=registers, warps=warps, shared=shared)
    assert held is not None
    assert (held.blocks, held.warps, held.most_warps, held.limits) == (blocks, blocks * warps, 64, limits)


@pytest.mark.parametrize(("registers", "warps", "shared", "blocks"), DRIVER)
def test_what_the_driver_says(registers: int, warps: int, shared: int, blocks: int) -> None:
    held = occupancy(H100, registers=registers, warps=warps, shared=shared)
    assert held is not None
    assert held.blocks == blocks


def test_other_gpus() -> None:
    ampere = occupancy(A10, registers=32, warps=4, shared=0)
    assert ampere is not None
    assert (ampere.blocks, ampere.limits, ampere.share) == (12, (OccupancyLimit.THREADS,), 1.0)
    turing = occupancy(T4, registers=32, warps=1, shared=0)  # 32 warps would fit, 16 blocks may
    assert turing is not None
    assert (turing.blocks, turing.limits, turing.share) == (16, (OccupancyLimit.BLOCKS,), 0.5)
    shared = occupancy(T4, registers=32, warps=4, shared=16385)  # in steps of 256, and none is kept back: 3 fit
    assert shared is not None
    assert (shared.blocks, shared.limits) == (3, (OccupancyLimit.SHARED,))


@pytest.mark.parametrize(("registers", "warps", "shared"), [(0, 4, 0), (256, 4, 0), (32, 0, 0), (32, 4, -1)])
def test_numbers_that_no_kernel_has(registers: int, warps: int, shared: int) -> None:
    assert occupancy(H100, registers=registers, warps=warps, shared=shared) is None


def test_a_gpu_that_nobody_knows() -> None:
    unknown = Multiprocessor(capability=(99, 0), registers=65536, threads=2048, shared=233472, warp=32)
    assert occupancy(unknown, registers=32, warps=4, shared=0) is None
