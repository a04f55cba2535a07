"""Measure what views of saved runs take, as multiples of `ctrace --help` in the same rounds; neither imports torch.

usage: startup.py [ROUNDS]
"""

import statistics
import sys
import tempfile
from pathlib import Path

from _measure import SAMPLES, Cost, explain, run

HELP = ("--help",)
SMALL = SAMPLES / "mlp.py"
LARGE = SAMPLES / "transformer_stack.py"  # 12 layers
VIEWS = (
    ("explain",),
    ("explain", "--json"),
    ("breaks",),
    ("guards",),
    ("graphs",),
    ("kernels",),
    ("fusion",),
    ("runs",),
)
MOST = {SMALL: 2.0, LARGE: 3.0}
"""Times `ctrace --help`."""


def main() -> int:
    """Measure all views of both runs; return 1 if one exceeds its limit."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    good = [_views(model, most, rounds) for model, most in MOST.items()]
    return 0 if all(good) else 1


def _views(model: Path, most: float, rounds: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        # An installed ctrace has its bytecode cached; the first round here writes it.
        environment = {"CTRACE_DIR": str(Path(folder) / "runs"), "PYTHONDONTWRITEBYTECODE": ""}
        run(explain(model), environment)
        costs: dict[tuple[str, ...], list[Cost]] = {words: [] for words in (HELP, *VIEWS)}
        for at in range(rounds + 1):
            for words, known in costs.items():
                cost = run([sys.executable, "-m", "ctrace", *words], environment)
                known += [cost] if at else []
    least = statistics.median(each.cpu for each in costs[HELP])
    print(f"{model.name}: ctrace --help takes {least * 1e3:.0f} ms of CPU time ({rounds} rounds)")
    good = True
    for words in VIEWS:
        ratios = [each.cpu / base.cpu for each, base in zip(costs[words], costs[HELP], strict=True)]
        middle = statistics.median(ratios)
        good &= middle <= most
        mark = "" if middle <= most else "  MORE THAN PROMISED"
        print(
            f"  ctrace {' '.join(words):15} {middle:.2f} times ({min(ratios):.2f} to {max(ratios):.2f}; "
            f"at most {most}){mark}",
            flush=True,
        )
    return good


if __name__ == "__main__":
    sys.exit(main())
