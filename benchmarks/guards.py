"""Compare the guards' cost by part with torch's measurement of the whole, and measure the search for the nearest entry.

usage: guards.py
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import SAMPLES

from ctrace.inspector.facts.guard_facts import GuardCost
from ctrace.inspector.findings.guard_tree import latency_of
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.log.reader import read
from ctrace.inspector.runs.load import load_log

OFF = 0.25
"""How far the sum of the parts may be from the whole, as a fraction of the whole."""
SHARE = 0.10
"""Share of a capture's time that finding the nearest entries may take."""
COSTED = ("transformer_stack.py", "mlp.py", "conv_net.py", "attention.py")
RECOMPILED = ("step_counter.py", "batch_sizes.py", "transformer_stack.py")
VARIED = {"transformer_stack.py": ("--vary", "0=3,1", "--vary", "1=24,48", "--vary", "mode=eval", "--vary", "grad=off")}


def main() -> int:
    """Measure; return 1 if one of the two exceeds its limit."""
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        good = [_sums(model, Path(folder) / f"cost-{model}") for model in COSTED]
        good += [_nearest(model, Path(folder) / f"nearest-{model}") for model in RECOMPILED]
    return 0 if all(good) else 1


def _captured(folder: Path, *words: str) -> tuple[Path, dict[str, float | None]]:
    command = [sys.executable, "-m", "ctrace", *words, "--backend", "eager", "-o", os.devnull]
    subprocess.run(command, env={**os.environ, "CTRACE_DIR": str(folder)}, check=True, stderr=subprocess.DEVNULL)
    run = next(path for path in folder.iterdir() if path.is_dir())
    return run / "trace.log", json.loads((run / "run.json").read_text())


def _sums(model: str, folder: Path) -> bool:
    log, _ = _captured(folder, "guards", str(SAMPLES / model), "--cost")
    offs = []
    for text in load_log(log).guards.values():
        if text.cost is not None:
            whole, parts = text.cost.plain.cold, _sum(text.cost)
            offs.append(parts / whole - 1)
            once = latency_of(text.text)
            print(
                f"{model}: parts {parts:.0f} us, torch's measure of the whole {whole:.0f} us ({offs[-1]:+.0%})", end=""
            )
            print(f", and once while compiling {once} us")
    return max(map(abs, offs)) <= OFF


def _sum(cost: GuardCost) -> float:
    return cost.root.cold + sum(part.time.cold for part in cost.parts if part.depth == 0) + cost.epilogue


def _nearest(model: str, folder: Path) -> bool:
    log, run = _captured(folder, "explain", str(SAMPLES / model), *VARIED.get(model, ()))
    raw = CollectedLog()
    for entry in read(log):
        raw.add(entry)
    seconds = [failed.seconds for failed in raw.unmet.values() if failed.seconds is not None]
    total = run["seconds"] or 0.0
    share = sum(seconds) / total
    middle = statistics.median(seconds) * 1000
    print(f"{model}: {len(seconds)} recompiles, nearest entry {middle:.1f} ms each, {share:.1%} of {total:.1f} s")
    return share <= SHARE


if __name__ == "__main__":
    sys.exit(main())
