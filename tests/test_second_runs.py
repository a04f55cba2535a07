"""Every place of ctrace that runs user work a second time, and why the program cannot notice it there.

A second run that writes to the program's memory, or moves its generators, changes results, and ctrace then blames the
compiler. So a place that is not in this table fails here: let it use `isolation.second_run`, or wait until the program
is over (`core/recorder.py`), or say that the time is not measured.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

ISOLATED = "copies of the arguments, and all states restored: isolation/second_run.py"
AFTER = "after the program, on copies, in memory of its own: core/recorder.py"
MODEL_COPY = "a copy of the model with copies of the arguments, and all states restored: isolation/unnoticed.py"
OWN_PROCESS = "a process that only measures or proves: the program runs in another one"
DRIVER = "the calls that the user asked for: ctrace takes the place of the program's loop"
GUARDS = "guards, which only read"
LAUNCH = "the program's own launch, in another way: no second one"

RUNS_AGAIN = {
    "inspector/capture/kernels/current_gpu.py": ISOLATED,
    "inspector/capture/kernels/record_built_kernels.py": ISOLATED,
    "inspector/capture/comparing/dangers.py": MODEL_COPY,
    "inspector/capture/comparing/eager.py": MODEL_COPY,
    "inspector/capture/dynamo/record_guards.py": GUARDS,
    "inspector/capture/isolation/second_run.py": ISOLATED,
    "inspector/features/accuracy/child/accuracy_task.py": OWN_PROCESS,
    "inspector/features/accuracy/child/node_values.py": MODEL_COPY,
    "inspector/features/workshop/child/applying_kernels.py": OWN_PROCESS,
    "inspector/features/workshop/child/check_package.py": OWN_PROCESS,
    "inspector/features/workshop/child/kernel_sides.py": OWN_PROCESS,
    "inspector/features/workshop/child/patched_model.py": OWN_PROCESS,
    "inspector/features/workshop/child/tune_kernel.py": OWN_PROCESS,
    "inspector/capture/kernels/record_cuda_graphs.py": AFTER,
    "inspector/features/fix/child/observation.py": OWN_PROCESS,
    "inspector/features/fix/child/probing.py": OWN_PROCESS,
    "inspector/features/fix/child/observed_calls.py": OWN_PROCESS,
    "inspector/features/fix/child/both_sides.py": OWN_PROCESS,
    "inspector/capture/scenario_runs.py": DRIVER,
    "inspector/features/time/child/timing_main.py": OWN_PROCESS,
    "inspector/capture/calls/timed_rounds.py": OWN_PROCESS,
    "inspector/features/gpus/child/triton_interpreter.py": LAUNCH,
    "inspector/features/upgrade/child/eager_task.py": OWN_PROCESS,
    "inspector/features/workshop/child/triton_ops_main.py": OWN_PROCESS,
}
"""By module."""

OURS = {
    "ctrace.inspector.capture.calls.calling.called",
    "ctrace.inspector.capture.kernels.current_gpu.timed",
    "ctrace.inspector.capture.isolation.second_run",
    "ctrace.inspector.capture.isolation.unnoticed",
    "ctrace.inspector.features.workshop.child.checks.guarded_call",
    "ctrace.inspector.features.workshop.child.kernel_sides.called",
    "ctrace.inspector.features.workshop.child.kernel_sides.called_each",
    "ctrace.inspector.features.fix.child.observed_calls.observe",
    "ctrace.inspector.capture.calls.stopwatch",
    "ctrace.inspector.capture.kernels.interpreted.run_interpreted",
    "triton.testing.do_bench",
}
"""What runs something a second time, or is only needed for that, by its import."""
TORCHS = {"replay", "CUDAGraph", "make_graphed_callables", "profile_guard_manager", "do_bench", "launchers"}
"""Attributes and names of torch and Triton with which a call could be made again."""
READS = {
    "inspector/capture/kernels/record_built_kernels.py",
    "inspector/capture/kernels/triton_builds.py",
}
"""Modules that only read which launcher a kernel chose."""


def means(source: str) -> Iterator[str]:
    """Yield what a module uses that can run something again."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield from (each for each in OURS if name == each or name.startswith(f"{each}."))
        elif isinstance(node, ast.Attribute) and node.attr in TORCHS:
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in TORCHS:
            yield node.id


def torch_side() -> Iterator[tuple[str, Path]]:
    """Yield each module of the child process: a feature's stand in its folder `child`."""
    for path in (ROOT / "inspector").rglob("*.py"):
        name = path.relative_to(ROOT)
        if {"capture", "child"} & set(name.parts):
            yield name.as_posix(), path


def again() -> set[str]:
    found = set()
    for name, path in torch_side():
        if set(means(path.read_text(encoding="utf-8"))) - ({"launchers"} if name in READS else set()):
            found.add(name)
    return found


def test_every_place_that_runs_user_work_again_is_listed() -> None:
    assert again() == set(RUNS_AGAIN)


def test_only_the_gate_makes_a_launch_for_the_stopwatch() -> None:
    makers = [
        name
        for name, path in torch_side()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RepeatableLaunch"
    ]
    assert set(makers) == {"inspector/capture/isolation/second_run.py"}


def imported(source: str) -> Iterator[str]:
    """Yield the modules of inspector/ that a module imports, lazily or not, as files."""
    prefix = "ctrace."
    for node in ast.walk(ast.parse(source)):
        name = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and name.startswith(f"{prefix}inspector."):
            yield f"{name.removeprefix(prefix).replace('.', '/')}.py"


@pytest.mark.parametrize("module", [name for name, why in RUNS_AGAIN.items() if why is OWN_PROCESS])
def test_nothing_of_a_capture_reaches_the_other_processes(module: str) -> None:
    """The sources of a capture, which run in the program's process, import none of these."""
    seen: set[str] = set()
    waiting = ["inspector/capture/capture_hooks.py"]
    while waiting:
        name = waiting.pop()
        if name in seen or not (ROOT / name).exists():
            continue
        seen.add(name)
        waiting += imported((ROOT / name).read_text(encoding="utf-8"))
    assert len(seen) > 50
    assert module not in seen


@pytest.mark.parametrize(
    "source",
    [
        "graph.replay()",
        "from triton.testing import do_bench",
        "from ctrace.inspector.capture.kernels.current_gpu import timed",
        "graph = torch.cuda.CUDAGraph()",
        "(chosen,) = kernel.launchers",
    ],
)
def test_a_second_run_is_found(source: str) -> None:
    assert list(means(source))
