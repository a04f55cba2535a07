"""Compare `ctrace explain` with a cold `torch.compile` of ten architectures, in time and in peak memory.

Each run is a new process with empty caches; the two alternate. Needs the `transformers` package.
usage: architectures.py [PAIRS] [NAME ...]
"""

import statistics
import sys
from pathlib import Path

from _measure import Cost, explain, pairs, plain, run

FILE = Path(__file__).resolve().parent / "_models.py"
OPTIONS: dict[str, tuple[str, ...]] = {
    "gpt2": (),
    "llama": (),
    "mixtral": (),
    "t5": (),
    "vit": (),
    "whisper": (),
    "unet": ("--train",),
    "dit": (),
    "gnn": (),
    "mamba": (),
}
"""The architectures, with the options that they are run with."""
MOST, MOST_OF_ONE, MOST_MEMORY = 0.5, 0.8, 1.1


def main() -> int:
    """Measure all; return 1 if the median or one of them exceeds its limit."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    names = sys.argv[2:] or list(OPTIONS)
    measured = [_against_torch(number, name, *OPTIONS[name]) for name in names]
    middle = statistics.median(time for time, _ in measured)
    slowest, largest = max(time for time, _ in measured), max(memory for _, memory in measured)
    print(
        f"median of {len(names)}: {middle:.2f} of the time (at most {MOST}), the slowest {slowest:.2f} "
        f"(at most {MOST_OF_ONE}), the largest {largest:.2f} of the memory (at most {MOST_MEMORY})"
    )
    return int(middle > MOST or slowest > MOST_OF_ONE or largest > MOST_MEMORY)


def _against_torch(number: int, name: str, *options: str) -> tuple[float, float]:
    """Print the medians of one architecture; return the ratios of wall time and of memory."""
    train = {"CTRACE_BENCH_TRAIN": "1"} if "--train" in options else {}
    model = {"CTRACE_BENCH_MODEL": name, **train}

    def explained(folder: Path) -> Cost:
        own = {"CTRACE_DIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
        return run(explain(FILE, *options), {**model, **own})

    def compiled(folder: Path) -> Cost:
        return run(plain(FILE, *options), {**model, "TORCHINDUCTOR_CACHE_DIR": str(folder)})

    costs = pairs(number, explained, compiled)
    times = [first.wall / second.wall for first, second in costs]
    memories = [first.memory / second.memory for first, second in costs]
    ours, theirs = (statistics.median(column) for column in zip(*((a.wall, b.wall) for a, b in costs), strict=True))
    print(
        f"{name}: {statistics.median(times):.2f} of the time ({min(times):.2f} to {max(times):.2f}, {number} pairs; "
        f"{ours:.1f} s against {theirs:.1f} s), {statistics.median(memories):.2f} of the memory",
        flush=True,
    )
    return statistics.median(times), statistics.median(memories)


if __name__ == "__main__":
    sys.exit(main())
