"""Compare the CPU time of a capture with `--build` with plain torch.compile, with C++ objects already built.

The capture is that of `ctrace graphs --build`: `explain` does more after it, such as comparing the model with eager.
Torch's graph caches are off on both sides, as in a capture; otherwise the plain run would skip compiling.
usage: overhead.py [PAIRS]
"""

import shutil
import sys
import tempfile
from pathlib import Path

from _measure import SAMPLES, Cost, pairs, plain, report, run

MOST = 1.05
MODEL = SAMPLES / "transformer_stack.py"
OPTIONS = ("--train",)


def main() -> int:
    """Measure; return 1 if ctrace exceeds its limit."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    cache = Path(tempfile.mkdtemp(prefix="ctrace-bench-"))
    environment = {
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
    }

    def watched(folder: Path) -> Cost:
        command = [sys.executable, "-m", "ctrace", "graphs", str(MODEL), "--build", *OPTIONS]
        return run(command, {**environment, "CTRACE_DIR": str(folder)})

    def compiled(_folder: Path) -> Cost:
        return run(plain(MODEL, *OPTIONS), environment)

    try:
        compiled(cache)  # builds the C++ objects
        costs = pairs(number, watched, compiled)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return 0 if report("transformer stack with backward, CPU time", [(a.cpu, b.cpu) for a, b in costs], MOST) else 1


if __name__ == "__main__":
    sys.exit(main())
