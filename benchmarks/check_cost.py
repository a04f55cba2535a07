"""Measure `ctrace check`: one small model compared with the minimal work, and ten models on two cores.

The minimal work is one process that imports torch and the model's file, makes the same calls in eager, and lets Dynamo
trace and run the same graphs (`backend="eager"`). All are whole command lines, run alternately.
usage: check_cost.py [PAIRS]
"""

import os
import shutil
import sys
from pathlib import Path

from _measure import SAMPLES, Cost, pairs, report, run

MODELS = ("mlp.py", "attention.py")
MOST = 1.5
"""Limit, as a multiple of the minimal work."""
MANY = 10
SPEEDUP = 1.7
"""Least speedup of two jobs at a time over one."""

TRACED = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("plain_model", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
model = module.model if isinstance(module.model, torch.nn.Module) else module.model()
compiled = torch.compile(model, backend="eager")
for _ in range(2):
    model(*module.inputs())
    compiled(*module.inputs())
"""


def main() -> int:
    """Measure all; return 1 if a limit is exceeded."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    good = [_against_torch(number, SAMPLES / name) for name in MODELS]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    return 0 if all([*good, _two_against_one(number)]) else 1


def _against_torch(number: int, model: Path) -> bool:
    def checked(folder: Path) -> Cost:
        return run(_check(model), {"CTRACE_DIR": str(folder)})

    def traced(_folder: Path) -> Cost:
        return run([sys.executable, "-c", TRACED, str(model)], {})

    costs = pairs(number, checked, traced)
    return report(f"{model.name}, wall time", [(first.wall, second.wall) for first, second in costs], MOST)


def _two_against_one(number: int) -> bool:
    costs = pairs(number, lambda folder: _many(folder, 2), lambda folder: _many(folder, 1))
    walls = [(two.wall, one.wall) for two, one in costs]
    return report(f"{MANY} models, two at a time against one, wall time", walls, round(1 / SPEEDUP, 3))


def _many(folder: Path, at_a_time: int) -> Cost:
    models = [folder / f"model_{number}.py" for number in range(MANY)]
    for model in models:
        shutil.copy(SAMPLES / "mlp.py", model)
    return run(_check(*models, jobs=at_a_time), {"CTRACE_DIR": str(folder / "runs")})


def _check(*models: Path, jobs: int = 1) -> list[str]:
    return [sys.executable, "-m", "ctrace", "check", *map(str, models), "--jobs", str(jobs)]


if __name__ == "__main__":
    sys.exit(main())
