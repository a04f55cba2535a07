"""Compare the CPU time of a capture with `--build` with that of plain torch.compile, C++ objects already built.

Each round runs five processes: plain torch.compile, a capture that only records, one that also calls the model in eager
and compares the results, one that also times the kernels, and plain torch.compile again. A ratio is the CPU time of a
capture, its children included, over the mean of the two plain runs of its round, so that a machine that slows down
during a round slows down both sides. The goal is for recording; the other two have figures of their own.

OpenMP gets one thread in all of them: its threads spin while another program has their core, which counts as CPU time.
Torch's graph caches are off on both sides, as in a capture; otherwise the plain run would skip compiling.
usage: overhead.py [ROUNDS]
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from _measure import SAMPLES, plain, run
from _watch import PARTS

MOST = 1.05
MODEL = SAMPLES / "transformer_stack.py"
OPTIONS = ("--train",)
WATCH = Path(__file__).with_name("_watch.py")
RECORDING, COMPARING, TIMING = (), PARTS[:1], PARTS
NAMES = {RECORDING: "recording", COMPARING: "comparing with eager as well", TIMING: "timing kernels as well"}


def main() -> int:
    """Measure; return 1 if recording exceeds its limit."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    cache = Path(tempfile.mkdtemp(prefix="ctrace-bench-"))
    environment = {
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "objects"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "OMP_NUM_THREADS": "1",
        "CTRACE_DIR": str(cache / "runs"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    print(f"transformer stack with backward, CPU time over plain torch.compile, {rounds} rounds", flush=True)
    try:
        run(plain(MODEL, *OPTIONS), environment)  # builds the C++ objects
        run([sys.executable, str(WATCH), str(MODEL)], environment)  # writes ctrace's bytecode
        measured = [_round(environment) for _ in range(rounds)]
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return 0 if _report(measured) else 1


def _round(environment: dict[str, str]) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return the CPU seconds of each capture and of plain torch.compile."""
    before = run(plain(MODEL, *OPTIONS), environment).cpu
    captures = {parts: run([sys.executable, str(WATCH), str(MODEL), *parts], environment).cpu for parts in NAMES}
    after = run(plain(MODEL, *OPTIONS), environment).cpu
    plainly = (before + after) / 2
    seconds = ", ".join(f"{NAMES[parts]} {cpu:.1f} s" for parts, cpu in captures.items())
    print(f"  round: plain {before:.1f} and {after:.1f} s, {seconds}", flush=True)
    return {parts: (cpu, plainly) for parts, cpu in captures.items()}


def _report(measured: list[dict[tuple[str, ...], tuple[float, float]]]) -> bool:
    """Print the ratios, and what each part adds; return whether recording is within its limit."""
    medians: list[float] = []
    for parts, name in NAMES.items():
        ratios = [each[parts][0] / each[parts][1] for each in measured]
        medians.append(statistics.median(ratios))
        seconds, plainly = (statistics.median(each[parts][at] for each in measured) for at in (0, 1))
        most = f", at most {MOST}" if parts == RECORDING else f", adds {medians[-1] - medians[-2]:.2f}"
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"  {name:29} {medians[-1]:.2f} ({spread}; {seconds:.1f} s against {plainly:.1f} s{most})", flush=True)
    return medians[0] <= MOST


if __name__ == "__main__":
    sys.exit(main())
