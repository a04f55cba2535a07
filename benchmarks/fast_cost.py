"""What `ctrace explain --fast` costs over the eager calls and the Dynamo-only compile that it cannot do without.

As in `check_cost.py`, both are whole command lines, measured in turn.
usage: fast_cost.py [PAIRS]
"""

import sys
from pathlib import Path

from _measure import SAMPLES, Cost, pairs, report, run
from check_cost import TRACED

MODELS = ("mlp.py", "attention.py")
MOST = 1.3
"""Times what it cannot do without."""


def main() -> int:
    """Measure all; 1 when something is slower than promised."""
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
