"""Compare the computed peak of a training step with the measured one, and try the first line of advice.

Ten models take forward, backward and a step of AdamW, in eager and compiled. Each runs in processes of its own, as a
user runs it: `ctrace memory FILE --train --build --json`. A peak is close if it is within 5%.

usage: memory.py [--advice] [--dtype DTYPE]... [--mode MODE]... [--write] [--seconds N] [NAME]...

MEMORY_DEVICE=cuda takes the GPU, MEMORY_SCALE=N enlarges the batches: there, 64 makes what libraries keep small.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _memory_models import MODELS

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "memory.md"
CLOSE = 0.05


@dataclass(frozen=True)
class Result:
    """One model."""

    name: str
    dtype: str
    mode: str
    report: dict[str, Any] | None
    why: str = ""

    def off(self, side: str) -> float | None:
        """Return how far the computed peak is from the measured one, as a share of that."""
        if self.report is None:
            return None
        computed, measured = (self.report[f"{kind}{side}peak"] for kind in ("computed_", ""))
        if computed is None or not measured["measured"]:
            return None
        return float(computed["bytes"] / measured["bytes"] - 1)


def run(name: str, dtype: str, mode: str, seconds: float, *options: str) -> Result:
    """Ask about one model."""
    modes = () if mode == "default" else ("--mode", mode)
    command = [sys.executable, "-m", "ctrace", "memory", f"{HERE / '_memory_models.py'}:model", "--train", "--json"]
    environment = {**os.environ, "MEMORY_MODEL": name, "MEMORY_DTYPE": dtype}
    try:
        done = subprocess.run(
            [*command, *modes, *options],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Result(name, dtype, mode, None, f"took more than {seconds:g} s")
    if done.returncode:
        return Result(name, dtype, mode, None, " ".join(done.stderr.split())[-200:])
    return Result(name, dtype, mode, json.loads(done.stdout))


def row(result: Result) -> str:
    """Return the line of a table."""
    report = result.report
    if report is None:
        return f"| {result.name} | {result.dtype} | {result.mode} | failed: {result.why} | | | | | |"
    compiled, eager = (result.off(side) for side in ("", "eager_"))
    cells = [
        result.name,
        result.dtype,
        result.mode,
        mib(report["peak"]["bytes"]),
        mib(report["computed_peak"]["bytes"]) if report["computed_peak"] else "",
        share(compiled),
        mib(report["eager_peak"]["bytes"]),
        share(eager),
        share(report["unattributed_bytes"] / report["peak"]["bytes"]),
    ]
    return f"| {' | '.join(cells)} |"


def mib(size: int) -> str:
    """Write bytes in MiB."""
    return f"{size / (1 << 20):.1f}"


def share(value: float | None) -> str:
    """Write a share with its sign."""
    return "" if value is None else f"{value:+.1%}"


HEAD = """\
| model | dtype | mode | compiled, MiB | computed | off by | eager, MiB | computed off by | unattributed |
|---|---|---|---|---|---|---|---|---|"""


def advised(name: str, dtype: str, seconds: float) -> str:
    """Return a line about the first advice: what it said, and what is measured with it."""
    tried = run(name, dtype, "default", seconds, "--build", "--try")
    if tried.report is None:
        return f"| {name} | failed: {tried.why} | | | |"
    options = [each for each in tried.report["options"] if each["peak_bytes"] is not None]
    computed, measured = tried.report["computed_peak"]["bytes"], tried.report["peak"]["bytes"]
    if not options or options[0]["computed_bytes"] >= 0.99 * computed:
        return f"| {name} | nothing lowers the peak | | | |"
    first = options[0]
    said, gained = computed - first["computed_bytes"], measured - first["peak_bytes"]
    return f"| {name} | {first['text']} | {mib(said)} | {mib(gained)} | {share(gained / said - 1)} |"


def main() -> int:
    """Run all, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--advice", action="store_true")
    parser.add_argument("--dtype", action="append")
    parser.add_argument("--mode", action="append")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    names = asked.names or list(MODELS)
    began = time.monotonic()
    results = []
    print(HEAD)
    for mode in asked.mode or ["default"]:
        for dtype in asked.dtype or ["float32"]:
            for name in names:
                results.append(run(name, dtype, mode, asked.seconds, "--build"))
                print(row(results[-1]), flush=True)
    known = [each.off("") for each in results]
    close = sum(each is not None and abs(each) <= CLOSE for each in known)
    device = os.environ.get("MEMORY_DEVICE", "cpu")
    summary = f"{close} of {len(results)} computed peaks are within {CLOSE:.0%} of the measured ones, on {device}."
    print(summary, f"({time.monotonic() - began:.0f} s)")
    advice = [advised(name, "float32", asked.seconds) for name in names] if asked.advice else []
    print("\n".join(advice))
    if asked.write:
        import torch

        text = f"# Computed and measured peaks\n\ntorch {torch.__version__}, {device}. {summary}\n\n{HEAD}\n"
        RESULTS.write_text(text + "\n".join(map(row, results)) + "\n" + "\n".join(advice), encoding="utf-8")
    return 0 if close == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
