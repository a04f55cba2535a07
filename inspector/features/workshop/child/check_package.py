"""The child process of `ctrace kernels edit`: check the package as it is now, compile it, and time it on a GPU."""

from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.features.workshop.child.importing import Case, Imported, Operator, cases, every_case, imported
from ctrace.inspector.features.workshop.child.kernel_sides import called, compared, limited, too_long
from ctrace.inspector.features.workshop.child.recorded_launches import absent, compiled, configuration_of, launches_of
from ctrace.inspector.features.workshop.kernel_package import package_at
from ctrace.inspector.features.workshop.package_model import CheckedPackage, PackageCheckRequest, Sizes
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

_STAGES = ("ttir", "ttgir", "ptx", "amdgcn")


class _Round(Struct):
    """What a check has found until now."""

    device: str = "cpu"
    operator: str = ""
    case: Case | None = None
    """The inputs that the kernel is running on."""
    checks: list[Sizes] = field(default_factory=list)
    code: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    untimed: str = ""

    def result(self) -> CheckedPackage:
        return CheckedPackage(self.device, tuple(self.checks), self.code, tuple(self.notes), self.untimed)

    def cut(self, seconds: float) -> CheckedPackage:
        """Return the result of a check that takes too long: what has no result is not right."""
        sizes, kind = (self.case.name, self.case.kind) if self.case is not None else ("its first inputs", "")
        unended = Sizes(self.operator, sizes, "unended", equal=False, largest=None, note=too_long(seconds), inputs=kind)
        return CheckedPackage(self.device, (*self.checks, unended), self.code, tuple(self.notes))


def main(_loaded: frozenset[str]) -> None:
    """Carry out the request."""
    answer(PackageCheckRequest, _checked)


def _checked(request: PackageCheckRequest) -> CheckedPackage:
    found = _Round()
    with limited(request.seconds, lambda: found.cut(request.seconds)):
        _check(request, found)
    return found.result()


def _check(request: PackageCheckRequest, found: _Round) -> None:
    import torch

    package = imported(package_at(Path(request.folder)))
    is_gpu = torch.cuda.is_available()
    if is_gpu:
        found.device = torch.cuda.get_device_name()
    else:
        found.device = "cpu"
    for operator in package.operators():
        _compare(package, operator, found, is_gpu=is_gpu)
        # A time of a wrong operator means nothing, and the report ends with the first one.
        if not all(each.equal for each in found.checks):
            return
        if is_gpu and request.is_timed and not operator.is_cpp:
            _time(package, operator, found)
        else:
            found.untimed = _untimed(operator, package.package.name, is_timed=request.is_timed)
        if request.code and operator.is_cpp:
            found.notes.append(f"--ir compares code that Triton makes; {operator.name} has a kernel in C++")
        if request.code and operator.kernels:
            try:
                found.code[operator.name] = _code(package, operator, request.target, is_gpu=is_gpu)
            except Exception as error:
                found.notes.append(f"not compiled: {kind_and_message(error)[:300]}")


def _compare(package: Imported, operator: Operator, found: _Round, *, is_gpu: bool) -> None:
    """Compare the package's cases up to the first wrong one.

    On a GPU, the kernel then runs in the interpreter, too, if it can: only that looks at each access.
    """
    found.operator = operator.name.rpartition("::")[2]
    on_gpu = is_gpu and not operator.is_cpp
    # First where the program runs: what fails there needs no second opinion.
    for device in ("cuda", "cpu") if on_gpu else ("cpu",):
        for case in every_case(package, operator, device):
            # Noted before the call, which may not end, so that the answer can name the inputs.
            found.case = case
            check = compared(operator, case, called(operator, case.args, {}, case.configuration))
            if on_gpu and device == "cpu" and check.kernel == "fallback":
                continue  # it ran on the GPU
            found.checks.append(check)
            if not check.equal:
                return


def _untimed(operator: Operator, package: str, *, is_timed: bool) -> str:
    """Say why a correct kernel was not timed."""
    if not is_timed:
        return "switched off with --no-time"
    if operator.is_cpp:
        return f"the kernel is in C++; {package}/bench.py times it on the CPU"
    return "there is no GPU here"


def _time(package: Imported, operator: Operator, found: _Round) -> None:
    """Time the kernel for each size, and note it at the first check of the size."""
    for case in cases(package, operator, "cuda"):
        found.case = case
        for number, each in enumerate(found.checks):
            # A size is checked on several devices and inputs, and its time is reported once.
            if (each.operator, each.sizes) == (found.operator, case.name):
                found.checks[number] = replace(each, seconds=seconds_of(operator, case))
                break


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
                    # The code of several kernels stands together, because the comparison is of the operator.
                    code[stage] = code.get(stage, "") + made.code[stage]
    return code
