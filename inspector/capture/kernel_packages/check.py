"""The child process of `ctrace kernels edit`: check the package as it is now, compile it, and time it on a GPU."""

from typing import Any

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.kernel_packages.correctness import compared
from ctrace.inspector.capture.kernel_packages.importing import Imported, Operator, imported
from ctrace.inspector.capture.kernel_packages.inputs import Case, cases
from ctrace.inspector.capture.kernel_packages.kernel_sides import called
from ctrace.inspector.capture.kernel_packages.launches import absent, compiled, configuration_of, launches_of
from ctrace.inspector.capture.tasks.answering import answer
from ctrace.inspector.gpus.table import gpu_named
from ctrace.inspector.kernel_packages.model import Checked, CheckRequest, Sizes
from ctrace.inspector.kernel_packages.package import package_at

_STAGES = ("ttir", "ttgir", "ptx", "amdgcn")


def main(_loaded: frozenset[str]) -> None:
    """Carry out the request."""
    answer(CheckRequest, _checked)


def _checked(request: CheckRequest) -> Checked:
    from pathlib import Path

    import torch

    found = imported(package_at(Path(request.folder)))
    is_gpu = torch.cuda.is_available()
    checks: list[Sizes] = []
    code: dict[str, dict[str, str]] = {}
    notes: list[str] = []
    for operator in found.operators():
        checks += _checks(found, operator, request, is_gpu=is_gpu)
        if request.code and operator.is_cpp:
            notes.append(f"--ir compares code that Triton makes; {operator.name} has a kernel in C++")
        if request.code and operator.kernels and all(each.equal for each in checks):
            try:
                code[operator.name] = _code(found, operator, request.target, is_gpu=is_gpu)
            except Exception as error:
                notes.append(f"not compiled: {kind_and_message(error)[:300]}")
    device = torch.cuda.get_device_name() if is_gpu else "cpu"
    return Checked(device, tuple(checks), code, tuple(notes))


def _checks(found: Imported, operator: Operator, request: CheckRequest, *, is_gpu: bool) -> list[Sizes]:
    """Check every size class; stop at the first that is wrong, and time none in that case."""
    checks, right = [], []
    for case in cases(found, operator, "cuda" if is_gpu else "cpu"):
        check = compared(operator, case, called(operator, case.args, {}))
        checks.append(check)
        if not check.equal:
            return checks
        right.append(case)
    if not is_gpu or not request.is_timed:
        return checks
    return [compared_again(check, seconds_of(operator, case)) for check, case in zip(checks, right, strict=True)]


def compared_again(check: Sizes, seconds: float | None) -> Sizes:
    """Return a check with a time."""
    from msgspec.structs import replace

    return replace(check, seconds=seconds)


def seconds_of(operator: Operator, case: Case) -> float | None:
    """Return the time of one launch, with a cold L2 cache; None if the kernel does not take these sizes."""
    from triton.testing import do_bench

    if not operator.kernels or not operator.module.covers(*case.args):
        return None
    launches: list[tuple[Any, tuple[Any, ...]]] = [
        (kernel[grid], args) for kernel, grid, args in launches_of(operator, case.args)
    ]

    def run() -> None:
        for launch, args in launches:
            launch(*args)

    run()  # tunes and compiles
    return float(do_bench(run, quantiles=[0.5])) * 1e-3


def _code(found: Imported, operator: Operator, target: str, *, is_gpu: bool) -> dict[str, str]:
    """Compile the first configuration of each kernel, on the inputs of the first size class."""
    import contextlib

    case = next(iter(cases(found, operator, "cuda" if is_gpu else "cpu")))
    code: dict[str, str] = {}
    with contextlib.nullcontext() if is_gpu else absent(gpu_named(target)):
        for kernel, _, args in launches_of(operator, case.args):
            chosen = getattr(kernel, "configs", None)
            if not chosen:
                raise ValueError("a kernel has no CONFIGS")
            made = compiled(kernel, args, configuration_of(chosen[0]))
            for stage in _STAGES:
                if stage in made.code:
                    code[stage] = code.get(stage, "") + made.code[stage]
    return code
