"""How long `ctrace explain` takes against the cold `torch.compile` run that it explains.

Each run is a fresh process with fresh caches; the two take turns. usage: explain_cost.py [PAIRS]
"""

import sys
from pathlib import Path

from _measure import SAMPLES, Cost, explain, pairs, plain, report, run

CASES = (
    ("12-layer transformer stack with backward", "transformer_stack.py", ("--train",), 0.65),
    ("hand-written attention", "attention.py", (), 0.9),
)


def main() -> int:
    """Measure all cases; 1 when one is slower than promised."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    good = True
    for name, file, options, most in CASES:
        model = SAMPLES / file

        def explained(folder: Path, model: Path = model, options: tuple[str, ...] = options) -> Cost:
            return run(
                explain(model, *options), {"CTRACE_DIR": str(folder / "runs"), "TORCHINDUCTOR_CACHE_DIR": str(folder)}
            )

        def compiled(folder: Path, model: Path = model, options: tuple[str, ...] = options) -> Cost:
            return run(plain(model, *options), {"TORCHINDUCTOR_CACHE_DIR": str(folder)})

        costs = pairs(number, explained, compiled)
        good &= report(f"{name}, wall time", [(first.wall, second.wall) for first, second in costs], most)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
