"""Run the subcommands of `ctrace kernels` that write or try kernels: from the command line to their child processes."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ctrace.inspector.errors import Exit, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.features.workshop.kernel_package import KernelPackage
    from ctrace.inspector.features.workshop.package_model import AppliedPackage, PackageTuning
    from ctrace.inspector.features.workshop.triton_op_model import WrapResult
    from ctrace.inspector.runs.capture_request import Options


def refuse_existing(output: Path | None) -> None:
    """Refuse to overwrite a file that the user may have changed.

    Raises:
        TargetError: the file exists and is not empty.
    """
    if output is not None and str(output) != "-" and output.is_file() and output.stat().st_size:
        raise TargetError(f"{output} exists", "name a new file with -o, or delete this one first")


def wrap_result(kernel: str, inputs: tuple[str, ...], timeout: float | None, *, is_run: bool) -> "WrapResult":
    """Write the operator, with a status line on a terminal.

    Raises:
        CtraceError: the kernel cannot be wrapped.
    """
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.workshop.kernel_wrapping import read_only, wrap
    from ctrace.inspector.runs.capture_request import Options

    if not is_run:
        return read_only(kernel)
    with progress() as shown:
        shown.say("running the model to see a launch")
        return wrap(kernel, Options(inputs), timeout, lambda: shown.observe(None))


def applied_package(
    folder: str,
    target: str,
    options: "Options",
    *,
    places: tuple[int, ...] = (),
    is_timed: bool,
    rounds: int | None,
    timeout: float | None,
    with_diffs: bool,
) -> "tuple[AppliedPackage, tuple[str, ...]]":
    """Apply the packages in a folder to a target, with a status line on a terminal; return the result and the diffs.

    Raises:
        CtraceError: the package or the target is wrong, or the user's code fails.
    """
    from ctrace.cli.progress import progress
    from ctrace.cli.time_steps import resolved
    from ctrace.inspector.features.workshop.kernel_package import diffs_of, packages_in
    from ctrace.inspector.features.workshop.package_children import applied

    packages = packages_in(folder)
    model = resolved(target, options)
    with progress() as shown:
        shown.say("compiling the model twice and comparing")
        found = applied(
            packages,
            model,
            options,
            places=places,
            is_timed=is_timed,
            rounds=rounds,
            timeout=timeout,
            observe=lambda: shown.observe(None),
        )
    return found, diffs_of(packages, model, found) if with_diffs else ()


def apply_exit_code(found: "AppliedPackage") -> Exit:
    """Return 1 if results differ or the package fits nowhere."""
    is_applied = any(each.applied for each in found.places)
    if is_applied and found.equal:
        return Exit.DONE
    return Exit.WORSE


class TunedPackage(Struct, frozen=True):
    """A package that was tuned."""

    folder: str
    tuned: "PackageTuning"
    is_written: bool
    notes: tuple[str, ...]


def tuned_packages(
    folder: str, gpu: str | None, most: int, kernels: tuple[str, ...], seconds: float | None, *, is_written: bool
) -> "tuple[TunedPackage, ...]":
    """Tune the packages in a folder; with times, write the best configurations into them.

    Raises:
        CtraceError: a package or the GPU is wrong, or a package's code fails.
    """
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.workshop.kernel_package import packages_in
    from ctrace.inspector.features.workshop.package_children import tuned
    from ctrace.inspector.features.workshop.package_configurations import with_kernels
    from ctrace.inspector.files.writing import working_folder
    from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
    from ctrace.inspector.runs.settings import settings_at

    gpus = tuple(settings_at(working_folder()).gpus)
    if gpu is not None:
        gpu_named(gpu, gpus)
    packages = with_kernels(packages_in(folder), kernels)
    found = []
    with progress() as shown:
        for package in packages:
            shown.say(f"{package.name}: {'compiling' if gpu is not None else 'timing'} configurations")
            result = tuned(package, gpu, most, gpus, kernels, seconds, lambda: shown.observe(None))
            found.append(_kept(package, result, is_written=is_written and result.is_timed))
    return tuple(found)


def _kept(package: "KernelPackage", result: "PackageTuning", *, is_written: bool) -> TunedPackage:
    from ctrace.inspector.features.workshop.package_configurations import (
        chosen,
        write_configurations,
        write_table,
    )

    notes, written = [], False
    for kernel in result.kernels if is_written else ():
        if not chosen(kernel):
            notes.append(f"{kernel.kernel} keeps its list: no other configuration is measurably faster")
            continue
        written = write_configurations(package, kernel, result.device) or written
        notes.append(f"the list of {kernel.kernel} in {package.folder / 'kernel.py'} has the best")
    if written:
        notes.append(write_table(package, result) or f"the table is in {package.folder / 'README.md'}")
    elif not notes:
        notes.append("kernel.py is unchanged" if result.is_timed else "kernel.py is unchanged: nothing was timed")
    return TunedPackage(str(package.folder), result, written, tuple(notes))
