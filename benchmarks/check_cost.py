"""Measure `ctrace check`: one small model compared with the minimal work, and ten models on two cores.

The minimal work is one process that imports torch and the model's file, makes the same calls in eager, and lets Dynamo
trace and run the same graphs (`backend="eager"`). Ten sample models are compared with what a project would write
without ctrace: one pytest process that imports torch once and compiles all of them with `backend="eager"`, each input
twice. These checks pass, by the policy of this repository: a model that fails at a line has its advice tried, which is
reported beside it. Samples that need only Dynamo, samples that are lowered for their guards, and a second check of
unchanged models are reported separately. All are whole command lines, run alternately.
usage: check_cost.py [PAIRS]
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from _measure import SAMPLES, Cost, pairs, report, run

MODELS = ("mlp.py", "attention.py")
MOST = 1.5
"""Limit, as a multiple of the minimal work."""
MANY = 10
SAMPLE_NAMES = (
    "attention", "attention_print", "attention_spellings", "attention_training", "conv_net", "custom_op",
    "data_dependent", "embedding_loss", "mlp", "transformer_stack",
)  # fmt: skip
"""Samples without symbolic sizes, for which a check needs only Dynamo."""
LOWERED = ("batch_sizes", "step_counter")
"""Samples with symbolic sizes, whose graphs are lowered for the guards that Inductor adds."""
MOST_OF_PYTEST = 1.3
"""Limit of ten models, as a multiple of the pytest process."""
MOST_OF_UNCHANGED = 0.1
"""Limit of a second check of unchanged models, as a multiple of the first."""
STRICT = "version: 1\nlimits: {breaks: {user: 0, library: 0, torch: 0}, recompiles: 0}\n"
"""A policy by which the samples that show a graph break fail."""
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

PYTEST = """
import importlib.util, os, sys
from pathlib import Path
import pytest, torch

@pytest.mark.parametrize("path", os.environ["BENCHMARK_MODELS"].split(os.pathsep))
def test_it_compiles(path):
    torch._dynamo.reset()
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    model = module.model if isinstance(module.model, torch.nn.Module) else module.model()
    compiled = torch.compile(model, backend="eager")
    for inputs in (module.inputs, *getattr(module, "scenarios", {}).values()):
        for _ in range(2):
            values = inputs() if callable(inputs) else inputs
            compiled(**values) if isinstance(values, dict) else compiled(*values)
"""


def main() -> int:
    """Measure all; return 1 if a limit is exceeded."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    good = [_against_torch(number, SAMPLES / name) for name in MODELS]
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    good += [_against_pytest(number, SAMPLE_NAMES, "10 models, Dynamo only"), _unchanged(number)]
    _failing_against_passing(number)  # reported, without a limit
    _against_pytest(number, LOWERED, "2 models, lowered for guards")  # reported, without a limit
    return 0 if all([*good, _two_against_one(number)]) else 1


def _against_pytest(number: int, names: Sequence[str], what: str) -> bool:
    """Compare a check with a pytest process on the same models, in CPU time and in wall time, which has a limit."""
    models = [SAMPLES / f"{name}.py" for name in names]

    def tested(folder: Path) -> Cost:
        (folder / "test_models.py").write_text(PYTEST, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
        return run(command, {"BENCHMARK_MODELS": os.pathsep.join(map(str, models))})

    costs = pairs(number, lambda folder: _passing(models, folder), tested)
    report(f"{what}, against pytest, CPU time", [(first.cpu, second.cpu) for first, second in costs], MOST_OF_PYTEST)
    walls = [(first.wall, second.wall) for first, second in costs]
    return report(f"{what}, against pytest, wall time", walls, MOST_OF_PYTEST)


def _failing_against_passing(number: int) -> bool:
    """Compare a check that fails, and tries the advice of the models that fail, with one that passes."""
    models = [SAMPLES / f"{name}.py" for name in SAMPLE_NAMES]

    def failing(folder: Path) -> Cost:
        policy = folder / "ctrace.yaml"
        policy.write_text(STRICT, encoding="utf-8")
        return run([*_check(*models, jobs=2), "--policy", str(policy)], {"CTRACE_DIR": str(folder)}, codes=(1,))

    costs = pairs(number, failing, lambda folder: _passing(models, folder))
    walls = [(first.wall, second.wall) for first, second in costs]
    return report("10 models, failing ones with advice against passing, wall time", walls, float("inf"))


def _passing(models: Sequence[Path], folder: Path) -> Cost:
    """Check by this repository's policy, which allows what the samples show."""
    policy = SAMPLES.parent / "ctrace.yaml"
    return run([*_check(*models, jobs=2), "--policy", str(policy)], {"CTRACE_DIR": str(folder)})


def _unchanged(number: int) -> bool:
    """Compare a second check of unchanged models with the first one."""
    models = [SAMPLES / f"{name}.py" for name in SAMPLE_NAMES]
    costs = []
    for _ in range(number):
        with TemporaryDirectory(prefix="ctrace-bench-") as folder:
            first, second = (run(_check(*models, jobs=2), {"CTRACE_DIR": folder}, codes=(0, 1)) for _ in range(2))
            costs.append((second.wall, first.wall))
    return report("10 models, unchanged against the first check, wall time", costs, MOST_OF_UNCHANGED)


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
    command = [*_check(*models, jobs=at_a_time), "--fresh-processes"]  # else most of the time is one import of torch
    return run(command, {"CTRACE_DIR": str(folder / "runs")})


def _check(*models: Path, jobs: int = 1) -> list[str]:
    return [sys.executable, "-m", "ctrace", "check", *map(str, models), "--jobs", str(jobs)]


if __name__ == "__main__":
    sys.exit(main())
