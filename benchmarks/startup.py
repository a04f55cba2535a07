"""Measure `ctrace --help` and a view of a saved run; neither imports torch.

usage: startup.py [RUNS]
"""

import statistics
import sys
import tempfile
from pathlib import Path

from _measure import SAMPLES, explain, run

COMMANDS = (
    ("ctrace --help", ("--help",), 0.2),
    ("ctrace explain (saved run)", ("explain",), 0.4),
    ("ctrace explain --json (saved run)", ("explain", "--json"), 0.4),
    ("ctrace runs", ("runs",), 0.4),
)


def main() -> int:
    """Measure all commands; return 1 if one exceeds its limit."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    good = True
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        # An installed ctrace has its bytecode cached; the first run here writes it.
        environment = {"CTRACE_DIR": str(Path(folder) / "runs"), "PYTHONDONTWRITEBYTECODE": ""}
        run(explain(SAMPLES / "transformer_stack.py"), environment)
        for name, words, most in COMMANDS:
            times = [run([sys.executable, "-m", "ctrace", *words], environment).wall for _ in range(number)]
            middle = statistics.median(times)
            good &= middle <= most
            print(
                f"{name}: {middle:.3f} s (at most {most} s; {number} runs, {min(times):.3f} to {max(times):.3f})",
                flush=True,
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
