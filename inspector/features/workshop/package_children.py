"""Run the child processes of `ctrace kernels apply`, `tune`, `edit` and `wrap`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.features.workshop.kernel_functions import refuse_wrapped
from ctrace.inspector.features.workshop.kernel_package import KernelPackage
from ctrace.inspector.features.workshop.kernel_reading import SourceFile, kernel_named, launches_of, parsed, split
from ctrace.inspector.features.workshop.package_model import (
    KERNEL_SECONDS,
    AppliedPackage,
    ApplyRequest,
    CheckedPackage,
    PackageCheckRequest,
    PackageTuning,
    TuneRequest,
)
from ctrace.inspector.features.workshop.triton_op_model import OperatorCheck, WrapRequest, WrapResult, limits_of
from ctrace.inspector.features.workshop.triton_op_writing import wrapped
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.target import ModelTarget, resolve
from ctrace.inspector.runs.tasks import TaskError, run_task

_CHILDREN = "ctrace.inspector.features.workshop.child"
# Chosen: the child ends by its own limit and writes what it has; this is for one that hangs in a kernel.
_SECONDS_TO_END = 30.0
Observe = Callable[[], None]
_CHILD = "ctrace.inspector.features.workshop.child.triton_ops_main"


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
    path = None
    if target.path is not None:
        path = str(target.path)
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


def read_only(text: str) -> WrapResult:
    """Write an operator from the source alone, without running anything.

    Raises:
        TargetError: there is no such kernel, or no operator can be written.
    """
    path, name = split(text)
    file = parsed(path)
    kernel = kernel_named(file, name)
    # The same launch as `wrapped` takes, since its limits are those of the operator.
    launch = launches_of(file, kernel)[0]
    refuse_wrapped(launch, kernel, path)
    return WrapResult(wrapped(file, name), limits_of(kernel, launch))


def wrap(
    text: str, options: Options, timeout: float | None = None, observe: Callable[[], None] = lambda: None
) -> WrapResult:
    """Write an operator, then run the file's model in a child process to see a launch, and check the operator.

    Raises:
        TargetError: there is no such kernel, or no operator can be written.
        SetupError: there is no supported torch.
    """
    found = read_only(text)
    path, name = split(text)
    is_model = _is_model(parsed(path), options)
    try:
        return run_task(
            _CHILD, WrapRequest(str(path), name, options, is_model), WrapResult, timeout=timeout, observe=observe
        )
    # The operator is written already; that its model fails is a check that failed.
    except TaskError as error:
        failed = OperatorCheck("the operator", None, f"not checked: {error.what}")
        return WrapResult(found.wrapped, found.limits, (failed,))


def _is_model(file: SourceFile, options: Options) -> bool:
    """Whether the file can be run as a model."""
    from ctrace.inspector.errors import TargetError

    try:
        target = resolve(str(file.path), has_inputs=bool(options.inputs))
    except TargetError:
        return False
    # Without inputs, no call of the model can show a launch.
    has_inputs = "inputs" in file.functions or any("inputs" in names for names in _assigned(file))
    return isinstance(target, ModelTarget) and (has_inputs or bool(options.inputs))


def _assigned(file: SourceFile) -> list[set[str]]:
    import ast

    return [
        {each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        for statement in file.tree.body
        if isinstance(statement, ast.Assign)
    ]


def in_file(result: WrapResult, file: Path) -> WrapResult:
    """Return the result with the import of the operator from the file that it is written to."""
    before, after = result.wrapped.calls
    called = after.replace(f"from {result.wrapped.function}_op import ", f"from {file.stem} import ")
    return replace(result, wrapped=replace(result.wrapped, calls=(before, called)))
