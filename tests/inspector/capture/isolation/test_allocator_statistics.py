"""Statistics of a GPU's allocator, as the program reads them after second runs; a stand-in replaces the allocator."""

from contextlib import ExitStack
from typing import Any

from ctrace.inspector.capture.isolation import allocator_statistics as statistics


class Allocator:
    """Counts what is allocated, as torch's does, under the names that torch._C has."""

    def __init__(self) -> None:
        self.bytes = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
        self.retries = 0

    def allocate(self, size: int) -> None:
        self.bytes["current"] += size
        self.bytes["peak"] = max(self.bytes["peak"], self.bytes["current"])
        self.bytes["allocated" if size > 0 else "freed"] += abs(size)

    def _cuda_memoryStats(self, _device: int) -> dict[str, Any]:
        return {"allocated_bytes": {"all": dict(self.bytes)}, "num_alloc_retries": self.retries, "max_split_size": -1}

    def _cuda_resetPeakMemoryStats(self, _device: int) -> None:
        self.bytes["peak"] = self.bytes["current"]

    def _cuda_resetAccumulatedMemoryStats(self, _device: int) -> None:
        self.bytes["allocated"] = self.bytes["freed"] = self.retries = 0


def read(allocator: Any) -> dict[str, Any]:
    return dict(allocator._cuda_memoryStats(0)["allocated_bytes"]["all"])


def second_run(size: int, allocator: Allocator) -> None:
    assert statistics._active is not None
    with statistics._active.excluding(1):
        allocator.allocate(size)
        allocator.retries += 1
        allocator.allocate(-size)


def test_a_program_reads_its_own_statistics() -> None:
    allocator, alone = Allocator(), Allocator()
    with ExitStack() as patches:
        statistics._install(allocator, patches)
        try:
            for size, runs in ((100, 50), (-60, 500), (30, 5), (200, 10), (-200, 900)):
                for each in (allocator, alone):
                    each.allocate(size)
                second_run(runs, allocator)
                assert allocator._cuda_memoryStats(0) == alone._cuda_memoryStats(0)
            for reset in ("_cuda_resetPeakMemoryStats", "_cuda_resetAccumulatedMemoryStats"):
                for each in (allocator, alone):
                    getattr(each, reset)(0)
                    each.allocate(7)
                second_run(300, allocator)
                assert read(allocator) == read(alone)
        finally:
            statistics._set_active(None)


def test_without_corrections_nothing_is_reset() -> None:
    with statistics.excluded():
        assert statistics._active is None
