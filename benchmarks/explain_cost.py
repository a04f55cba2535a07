"""Compare the time of `ctrace explain` with a cold `torch.compile` run, and of `--target` with `ctrace explain`.

Each run is a new process with empty caches; the two alternate. The C++ side of `--target` is built first, because
it is built only once per machine. usage: explain_cost.py [PAIRS] [--only-target]
"""

import shutil
import sys
import tempfile
from pathlib import Path

from _measure import SAMPLES, Cost, explain, pairs, plain, report, run

CASES = (
    ("12-layer transformer stack with backward", "transformer_stack.py", ("--train",), 0.65),
    ("hand-written attention", "attention.py", (), 0.9),
)
TARGETS = (
    ("12-layer transformer stack for an H100", "transformer_stack.py", (), 2.0),
    ("12-layer transformer stack with backward for an H100", "transformer_stack.py", ("--train",), 2.0),
)


def main() -> int:
    """Measure all cases; return 1 if one exceeds its limit."""
    words = [word for word in sys.argv[1:] if word != "--only-target"]
    number = int(words[0]) if words else 5
    good = True
    for case in CASES if len(words) == len(sys.argv) - 1 else ():
        good &= _against_torch(number, *case)
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as warm:
        for case in TARGETS:
            good &= _against_no_target(number, Path(warm) / "cache", *case)
    return 0 if good else 1


def _against_torch(number: int, name: str, file: str, options: tuple[str, ...], most: float) -> bool:
    model = SAMPLES / file

    def explained(folder: Path) -> Cost:
        return run(explain(model, *options), _own(folder))

    def compiled(folder: Path) -> Cost:
        return run(plain(model, *options), {"TORCHINDUCTOR_CACHE_DIR": str(folder)})

    costs = pairs(number, explained, compiled)
    return report(f"{name}, wall time", [(first.wall, second.wall) for first, second in costs], most)


def _against_no_target(number: int, warm: Path, name: str, file: str, options: tuple[str, ...], most: float) -> bool:
    """Measure the first run for a target, which compiles every kernel, and a second run, which finds them cached."""
    model = SAMPLES / file
    warm.mkdir(exist_ok=True)
    # Another GPU: this builds the C++ side, and caches no kernel for the measured GPU.
    run(explain(model, *options, "--target", "t4"), {**_own(warm.parent), "CTRACE_CACHE_DIR": str(warm)})

    def targeted(folder: Path) -> Cost:
        shutil.copytree(warm, folder / "cache")
        kept = {**_own(folder), "CTRACE_CACHE_DIR": str(folder / "cache")}
        first = run(explain(model, *options, "--target", "h100"), kept)
        seconds.append(run(explain(model, *options, "--target", "h100"), kept))
        return first

    def explained(folder: Path) -> Cost:
        return run(explain(model, *options), _own(folder))

    seconds: list[Cost] = []
    costs = pairs(number, targeted, explained)
    plainly = [each.wall for _, each in costs]
    good = report(f"{name}, first time", [(first.wall, second.wall) for first, second in costs], most)
    cached = [(second.wall, wall) for second, wall in zip(seconds, plainly, strict=True)]
    return report(f"{name}, second time", cached, most) and good


def _own(folder: Path) -> dict[str, str]:
    return {"CTRACE_DIR": str(folder / "runs"), "TORCHINDUCTOR_CACHE_DIR": str(folder)}


if __name__ == "__main__":
    sys.exit(main())
