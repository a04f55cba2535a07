"""Compare `ctrace explain --fast` with the minimal work: the eager calls and a Dynamo-only compile.

As in `check_cost.py`, both are whole command lines, run alternately.
usage: fast_cost.py [PAIRS]
"""

import sys
from pathlib import Path

from _measure import SAMPLES, Cost, pairs, report, run
from check_cost import TRACED

MODELS = ("mlp.py", "attention.py")
MOST = 1.3
"""Limit, as a multiple of the minimal work."""


def main() -> int:
    """Measure all; return 1 if a limit is exceeded."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    good = [_against_torch(number, SAMPLES / name) for name in MODELS]
    return 0 if all(good) else 1


def _against_torch(number: int, model: Path) -> bool:
    def explained(folder: Path) -> Cost:
        command = [sys.executable, "-m", "ctrace", "explain", "--fast", str(model)]
        return run(command, {"CTRACE_DIR": str(folder)})

    def traced(_folder: Path) -> Cost:
        return run([sys.executable, "-c", TRACED, str(model)], {})

    costs = pairs(number, explained, traced)
    return report(f"{model.name}, wall time", [(first.wall, second.wall) for first, second in costs], MOST)


if __name__ == "__main__":
    sys.exit(main())
