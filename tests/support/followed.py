"""A run whose memory was followed."""

from msgspec.structs import replace

from ctrace.inspector.facts.memory_facts import (
    AliveMemory,
    CallGrowth,
    FoundMemory,
    HeldMemory,
    KindBytes,
    LineMemory,
    MemoryMoment,
    MemoryOption,
    MemoryPeak,
    SavedMemory,
)
from tests.support import fusions

MIB = 1 << 20
CWD = fusions.FUSED.environment.cwd
FILE = f"{CWD}/model.py"


def peak(size: int, *, measured: bool = False) -> MemoryPeak:
    """Return a peak in the backward."""
    return MemoryPeak(size, measured=measured, part="backward", at=f"{FILE}:10")


def alive(size: int, kind: str, line: int | None) -> AliveMemory:
    """Return one tensor that is alive at the peak."""
    file = None if line is None else FILE
    return AliveMemory(size, kind, file, line, "forward", (size // 4,), "float32", 1, f"line {line}")


def _moment(part: str, line: int, **kinds: int) -> MemoryMoment:
    each = tuple(KindBytes(kind, size) for kind, size in sorted(kinds.items()))
    return MemoryMoment(part, f"{FILE}:{line}", sum(kinds.values()), each)


FOUND = FoundMemory(
    peak=peak(9 * MIB, measured=True),
    computed_peak=peak(8 * MIB),
    eager_peak=peak(11 * MIB, measured=True),
    computed_eager_peak=peak(10 * MIB),
    alive=(alive(5 * MIB, "saved", 10), alive(2 * MIB, "parameter", 4), alive(MIB, "optimizer", None)),
    unattributed_bytes=MIB,
    eager_alive=(alive(8 * MIB, "saved", 11), alive(2 * MIB, "parameter", 4)),
    lines=(LineMemory(FILE, 10, 5 * MIB, 0, source="softmax"), LineMemory(FILE, 11, 0, 8 * MIB)),
    saved=(SavedMemory(5 * MIB, FILE, 10, "div", False, None, (5 * MIB // 4,), "float32", "it is least"),),
    options=(
        MemoryOption(
            "checkpoint", "checkpoint", FILE, 9, 4 * MIB, 1e6, computed_bytes=4 * MIB, tried=True, measured=False
        ),
        MemoryOption("no_grad", "no_grad", None, None, None, None, tried=False, measured=False, why_not="no time"),
    ),
    growth=(CallGrowth(1, MIB), CallGrowth(2, 2 * MIB)),
    held=(HeldMemory(MIB, 1, FILE, 10, "model.cache", holder_file=FILE, holder_line=12),),
    timeline=(
        _moment("forward", 10, parameter=2 * MIB, saved=5 * MIB),
        _moment("backward", 10, parameter=2 * MIB, saved=5 * MIB, optimizer=MIB),
        _moment("optimizer", 10, parameter=2 * MIB, optimizer=MIB),
    ),
    problems=("a problem",),
    graphs=1,
    flops=1e7,
    train=True,
    saved_bytes=5 * MIB,
    eager_saved_bytes=8 * MIB,
)
FOLLOWED = replace(fusions.FUSED, memory=FOUND)
