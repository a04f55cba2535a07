"""Run commands alternately as whole processes, and compare their cost."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).resolve().parent.parent / "sample_models"

PLAIN = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("plain_model", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
model = module.model if isinstance(module.model, torch.nn.Module) else module.model()
train = "--train" in sys.argv
if train:
    model.train()
compiled = torch.compile(model)
for _ in range(2):
    taken = module.inputs()
    output = compiled(**taken) if isinstance(taken, dict) else compiled(*taken)
    if train:
        output.sum().backward()
"""
"""The work of `ctrace explain` without ctrace: compile the model and call it twice."""


@dataclass(frozen=True)
class Cost:
    """The cost of one process and its children, in seconds."""

    wall: float
    cpu: float
    memory: int
    """The peak memory of the largest of these processes, in KiB."""


def run(command: Sequence[str], environment: dict[str, str], codes: Sequence[int] = (0,)) -> Cost:
    """Run a command until it ends with one of the exit codes.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    began = time.perf_counter()
    child = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in codes:
        raise subprocess.CalledProcessError(child.returncode, list(command))
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss)


def plain(model: Path, *options: str) -> list[str]:
    """Return the command that compiles and calls a model without ctrace."""
    return [sys.executable, "-c", PLAIN, str(model), *options]


def explain(model: Path, *options: str) -> list[str]:
    """Return the command that explains a model."""
    return [sys.executable, "-m", "ctrace", "explain", str(model), *options]


def pairs(number: int, first: Callable[[Path], Cost], second: Callable[[Path], Cost]) -> list[tuple[Cost, Cost]]:
    """Run two functions alternately, each time in a new folder that is deleted afterwards."""
    results = []
    for _ in range(number):
        costs = []
        for measured in (first, second):
            folder = Path(tempfile.mkdtemp(prefix="ctrace-bench-"))
            try:
                costs.append(measured(folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        results.append((costs[0], costs[1]))
    return results


def report(name: str, values: Sequence[tuple[float, float]], most: float) -> bool:
    """Print the ratios of all pairs and their median; return whether the median is within the limit."""
    ratios = [first / second for first, second in values]
    middle = statistics.median(ratios)
    firsts, seconds = (statistics.median(column) for column in zip(*values, strict=True))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(
        f"{name}: {middle:.2f} (at most {most}; {len(ratios)} pairs, {spread}; "
        f"medians {firsts:.1f} s against {seconds:.1f} s)",
        flush=True,
    )
    return middle <= most
