"""The child process of `ctrace kernels edit`: check the package as it is now, compile it, and time it on a GPU."""

import time
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.kernel_packages.correctness import compared
from ctrace.inspector.capture.kernel_packages.importing import Imported, Operator, imported
from ctrace.inspector.capture.kernel_packages.inputs import Case, cases, every_case
from ctrace.inspector.capture.kernel_packages.kernel_sides import called
from ctrace.inspector.capture.kernel_packages.launches import absent, compiled, configuration_of, launches_of
from ctrace.inspector.capture.tasks.answering import answer
from ctrace.inspector.gpus.table import gpu_named
from ctrace.inspector.kernel_packages.model import Checked, CheckRequest, Sizes
from ctrace.inspector.kernel_packages.package import package_at

_SECONDS = 10.0
"""After so long, only one input of each further size is compared: a person waits for the line."""
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
    left_out = 0
    for operator in found.operators():
        made, more = _checks(found, operator, request, is_gpu=is_gpu)
        checks += made
        left_out += more
        if request.code and operator.is_cpp:
            notes.append(f"--ir compares code that Triton makes; {operator.name} has a kernel in C++")
        if request.code and operator.kernels and all(each.equal for each in checks):
            try:
                code[operator.name] = _code(found, operator, request.target, is_gpu=is_gpu)
            except Exception as error:
                notes.append(f"not compiled: {kind_and_message(error)[:300]}")
    device = torch.cuda.get_device_name() if is_gpu else "cpu"
    return Checked(device, tuple(checks), code, tuple(notes), left_out)


def _checks(found: Imported, operator: Operator, request: CheckRequest, *, is_gpu: bool) -> tuple[list[Sizes], int]:
    """Compare the package's cases up to the first wrong one; return the checks, and how many were left out.

    If all are right, the first check of each size has the kernel's time.
    """
    device = "cuda" if is_gpu else "cpu"
    checks: list[Sizes] = []
    left_out, began = 0, time.monotonic()
    for case in every_case(found, operator, device):
        if time.monotonic() - began > _SECONDS and not case.kind.startswith("random inputs 1"):
            left_out += 1
            continue
        check = compared(operator, case, called(operator, case.args, {}))
        checks.append(check)
        if not check.equal:
            return checks, 0
    if is_gpu and request.is_timed:
        timed = {case.name: seconds_of(operator, case) for case in cases(found, operator, device)}
        firsts = {each.sizes: number for number, each in reversed(list(enumerate(checks)))}
        checks = [
            replace(each, seconds=timed.get(each.sizes)) if firsts[each.sizes] == number else each
            for number, each in enumerate(checks)
        ]
    return checks, left_out


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
