"""Run the child processes of `ctrace kernels apply`, `tune` and `edit`."""

from collections.abc import Callable, Sequence

from ctrace.inspector.features.workshop.kernel_package import KernelPackage
from ctrace.inspector.features.workshop.package_model import (
    KERNEL_SECONDS,
    AppliedPackage,
    ApplyRequest,
    CheckedPackage,
    PackageCheckRequest,
    PackageTuning,
    TuneRequest,
)
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.target import ModelTarget
from ctrace.inspector.runs.tasks import run_task

_CHILDREN = "ctrace.inspector.features.workshop.child"
# Chosen: the child ends by its own limit and writes what it has; this is for one that hangs in a kernel.
_SECONDS_TO_END = 30.0
Observe = Callable[[], None]


def applied(
    packages: Sequence[KernelPackage],
    target: ModelTarget,
    options: Options,
    *,
    places: tuple[int, ...] = (),
    is_timed: bool = True,
    rounds: int | None = None,
    timeout: float | None = None,
    observe: Observe = lambda: None,
) -> AppliedPackage:
    """Apply packages to a model.

    Raises:
        CtraceError: the package or the target is wrong, or the user's code fails.
    """
    path = None if target.path is None else str(target.path)
    folders = tuple(str(each.folder) for each in packages)
    request = ApplyRequest(
        folders=folders,
        path=path,
        module=target.module,
        name=target.name,
        options=options,
        places=places,
        is_timed=is_timed,
        rounds=rounds,
        seconds=timeout or KERNEL_SECONDS,
    )
    return run_task(f"{_CHILDREN}.applying_kernels", request, AppliedPackage, timeout=timeout, observe=observe)


def tuned(
    package: KernelPackage,
    target: str | None,
    most: int,
    gpus: tuple[str, ...],
    kernels: tuple[str, ...] = (),
    seconds: float | None = None,
    observe: Observe = lambda: None,
) -> PackageTuning:
    """Compile or time the configurations of a package's kernels: of all, or of those that are named.

    Raises:
        CtraceError: the package or the GPU is wrong, or its code fails.
    """
    request = TuneRequest(str(package.folder), target, most, gpus, kernels, seconds or KERNEL_SECONDS)
    return run_task(f"{_CHILDREN}.tune_kernel", request, PackageTuning, observe=observe)


def checked(package: KernelPackage, request: PackageCheckRequest, observe: Observe = lambda: None) -> CheckedPackage:
    """Check a package as it is now.

    Raises:
        CtraceError: the package is wrong, or its code fails.
    """
    # The child process ends itself and says on which inputs, unless it cannot even do that.
    late = request.seconds + _SECONDS_TO_END
    return run_task(f"{_CHILDREN}.check_package", request, CheckedPackage, timeout=late, observe=observe)
