"""Run the subcommands of `ctrace kernels` that write or try kernels: from the command line to their child processes.

`applied_package`, `tuned_packages` and `wrap_result` are those of apply, tune and wrap. `Editing` is the loop of
`ctrace kernels edit`: check, print one line, wait for a save. `ejected` chooses the kernels that `ctrace kernels eject`
writes, writes them, and says what was written and what was not.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ctrace.cli.run_request import Request, session_of
from ctrace.inspector.errors import CtraceError, Exit, TargetError, did_you_mean

if TYPE_CHECKING:
    from ctrace.inspector.facts.kernel_facts import Kernel
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.workshop.kernel_package import KernelPackage
    from ctrace.inspector.features.workshop.package_model import (
        AppliedPackage,
        CheckedPackage,
        PackageCheckRequest,
        PackageTuning,
        TunedPackage,
    )
    from ctrace.inspector.features.workshop.triton_op_model import WrapResult
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.reports.dump.eject_writing import Ejected


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
    from ctrace.inspector.features.workshop.package_children import read_only, wrap
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


def _kept(package: "KernelPackage", result: "PackageTuning", *, is_written: bool) -> "TunedPackage":
    from ctrace.inspector.features.workshop.package_configurations import (
        chosen,
        write_configurations,
        write_table,
    )
    from ctrace.inspector.features.workshop.package_model import TunedPackage

    notes, written = [], False
    for kernel in result.kernels if is_written else ():
        if not chosen(kernel):
            notes.append(f"{kernel.kernel} keeps its list: no other configuration is measurably faster")
            continue
        # The call first: behind a true value, `or` would skip it.
        written = write_configurations(package, kernel, result.device) or written
        notes.append(f"the list of {kernel.kernel} in {package.folder / 'kernel.py'} has the best")
    if written:
        notes.append(write_table(package, result) or f"the table is in {package.folder / 'README.md'}")
    elif not notes:
        notes.append("kernel.py is unchanged" if result.is_timed else "kernel.py is unchanged: nothing was timed")
    return TunedPackage(str(package.folder), result, written, tuple(notes))


class Editing:
    """Checks one package, again and again."""

    def __init__(self, folder: str, *, is_timed: bool, code: bool, target: str, seconds: float | None) -> None:
        """Find the package.

        Raises:
            TargetError: there is none in the folder, or several.
        """
        from ctrace.inspector.features.workshop.kernel_package import found_in

        found = found_in(folder)
        if len(found) > 1:
            names = ", ".join(str(each) for each in found[:5])
            raise TargetError(f"{folder} has {len(found)} packages: {names}", "name one of these folders")
        self._folder = found[0]
        self._is_timed = is_timed
        self._code = code
        self._target = target
        self._seconds = seconds
        self._last: CheckedPackage | None = None
        """The last version that was correct, with which the next one is compared."""

    def _package(self) -> "KernelPackage":
        from ctrace.inspector.features.workshop.kernel_package import package_at

        # Read again for each check, since its files are what changes.
        return package_at(self._folder)

    def _request(self) -> "PackageCheckRequest":
        from msgspec.structs import replace

        from ctrace.inspector.features.workshop.package_model import PackageCheckRequest

        request = PackageCheckRequest(str(self._folder), self._is_timed, self._code, self._target)
        if self._seconds is None:
            return request
        return replace(request, seconds=self._seconds)

    def _check(self) -> "CheckedPackage":
        from ctrace.cli.progress import progress
        from ctrace.inspector.features.workshop.package_children import checked

        with progress() as shown:
            shown.say("checking")
            return checked(self._package(), self._request(), lambda: shown.observe(None))

    def once(self, output: Path | None, *, json: bool) -> int:
        """Check once; return the exit code.

        Raises:
            CtraceError: the package does not parse, or its code fails.
        """
        from ctrace.cli.console import write_report
        from ctrace.inspector.features.workshop.package_model import CheckDocument
        from ctrace.reports.escape import plain_text
        from ctrace.reports.json.printer import render
        from ctrace.reports.wording.kernel_packages import check_line

        found = self._check()
        lines = [check_line(None, found), *found.notes]
        document = CheckDocument(str(self._folder), found)
        write_report(render(document) if json else plain_text("\n".join(lines) + "\n"), output)
        if found.is_right:
            return Exit.DONE
        return Exit.WORSE

    def watch(self) -> int:
        """Check now and after every save, until Ctrl-C or until nobody reads stdout."""
        from ctrace.cli.console import is_stdout_unread, say
        from ctrace.cli.streams import EndedBySignal
        from ctrace.inspector.features.workshop.kernel_package import bare_package, changed, next_change, stamp_of

        package = bare_package(self._folder)
        say(f"ctrace: watching {self._folder}; Ctrl-C ends")
        # Before the first check, so that a save in the middle of it counts.
        stamp = stamp_of(package)
        names: tuple[str, ...] = ()
        try:
            self._report(names)
            while not is_stdout_unread():
                after = next_change(package, stamp)
                stamp, names = after, changed(stamp, after)
                self._report(names)
        except (EndedBySignal, KeyboardInterrupt) as signal:
            # Ctrl-C is the usual end of watching; another signal ends the command.
            if getattr(signal, "name", "SIGINT") != "SIGINT":
                raise
            say("ctrace: stopped watching")
        return Exit.DONE

    def _report(self, names: tuple[str, ...]) -> None:
        """Check once, and print one line; an error in the package is one, too."""
        from ctrace.cli.console import write_report
        from ctrace.inspector.features.workshop.kernel_package import code_diffs
        from ctrace.reports.escape import plain_text
        from ctrace.reports.wording.kernel_packages import check_line

        label = f"{time.strftime('%H:%M:%S')} {', '.join(names) or 'as it is'}"
        try:
            found = self._check()
        except CtraceError as error:
            write_report(plain_text(f"{label}: {error.what}\n"), None)
            return
        lines = [f"{label}: {check_line(self._last, found)}", *found.notes]
        if self._last is not None:
            lines += code_diffs(self._last, found)
        write_report(plain_text("\n".join(lines) + "\n"), None)
        if found.is_right:
            self._last = found


class EjectRequest(Struct, frozen=True):
    """The options of one command line."""

    names: tuple[str, ...]
    output: Path | None
    line: str | None = None
    graph: str | None = None
    stage: str | None = None
    all_of_it: bool = False
    json: bool = False


def ejected(run: Request, request: EjectRequest) -> int:
    """Eject the chosen kernels; return the exit code.

    Raises:
        CtraceError: the command line or the run is wrong, or a kernel that was named cannot be ejected.
    """
    from ctrace.cli.filters import check_graph, check_line, check_part
    from ctrace.cli.show import exit_code

    check_graph(request.graph)
    check_part(request.stage)
    check_line(request.line)
    folder = _checked(request)
    session, is_new = session_of(run)
    code = exit_code(session) if is_new else Exit.DONE
    # Where a run failed before its kernels, that is the error, and not a name that matches none.
    kernels = _chosen(session, request) if session.kernels or code is Exit.DONE else ()
    found = _eject(session, kernels, folder, is_lenient=request.all_of_it or bool(request.line))
    is_model = bool(session.parts) and run.target is not None and ".py" in run.target
    _show(session, found, (run.target or "") if is_model else "", json=request.json)
    return code


def _checked(request: EjectRequest) -> Path:
    chosen = [
        name
        for name, value in {"NAME": request.names, "--line": request.line, "--all": request.all_of_it}.items()
        if value
    ]
    if not chosen:
        raise TargetError(
            "kernels eject: name a kernel", "ctrace kernels lists them; or --line FILE:LINE, or --all for every one"
        )
    if len(chosen) > 1:
        raise TargetError(f"{' and '.join(chosen[:2])} exclude each other", "choose one")
    if request.output is None:
        raise TargetError("kernels eject: -o DIR is missing", "name the folder for the packages: -o ops")
    return request.output


def _chosen(session: "Session", request: EjectRequest) -> "tuple[Kernel, ...]":
    """Return the kernels to eject, in the order of the run.

    Raises:
        TargetError: a name matches none or several.
    """
    from ctrace.inspector.findings.kernels.kernel_view import parts

    found = parts(session, request.graph, request.stage)
    kernels = tuple(row.kernel for part in found for row in part.rows)
    if request.line:
        from ctrace.inspector.findings.kernels.at_line import some_at_line

        of_lines = some_at_line(session, request.line, request.graph, request.stage)
        # By identity, since kernels of several graphs may be equal.
        wanted = {id(each.row.kernel) for part in of_lines for each in part.kernels}
        return tuple(each for each in kernels if id(each) in wanted and each.language != "external")
    # A library's kernel has no source to take out.
    if request.all_of_it:
        return tuple(each for each in kernels if each.language != "external")
    if not kernels:
        raise TargetError(f"{request.names[0]}: this run has no kernel", "capture the model: --of model.py")
    return tuple(_named(kernels, name) for name in request.names)


def _named(kernels: "tuple[Kernel, ...]", name: str) -> "Kernel":
    from ctrace.inspector.features.workshop.eject_kernel import op_name

    # From strict to loose, since a whole name may be a part of another one.
    tests: tuple[Callable[[Kernel], bool], ...] = (
        lambda each: each.name == name,
        lambda each: op_name(each.name, each.stage) == name,
        lambda each: each.name.startswith(name),
        lambda each: name in each.name,
    )
    matches = next((hits for test in tests if (hits := [each for each in kernels if test(each)])), [])
    if not matches:
        known = [op_name(each.name, each.stage) for each in kernels if each.language != "external"]
        todo = did_you_mean(name, known, "ctrace kernels lists them")
        raise TargetError(f"{name}: no kernel name contains that", todo)
    if len(matches) > 1:
        listed = ", ".join(f"{each.name} ({each.graph} {each.stage})" for each in matches[:6])
        raise TargetError(
            f"{name}: {len(matches)} kernels match: {listed}",
            "name one in full; --graph and --stage choose between kernels of the same name",
        )
    return matches[0]


def _eject(session: "Session", kernels: "Iterable[Kernel]", folder: Path, *, is_lenient: bool) -> "tuple[Ejected, ...]":
    """Write a package for each kernel.

    Raises:
        TargetError: one cannot be ejected, and was named.
        DumpError: a package cannot be written.
    """
    from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, package_of
    from ctrace.inspector.features.workshop.size_expressions import RefusalError
    from ctrace.reports.dump.eject_writing import Ejected, Written, make_folder, write_package

    done: list[Ejected] = []
    # All are looked at before anything is written: a name that is refused leaves no package of another one.
    packages: list[tuple[Kernel, EjectedPackage | RefusalError]] = []
    for kernel in kernels:
        try:
            packages.append((kernel, package_of(session, kernel)))
        except RefusalError as error:
            if not is_lenient:
                raise TargetError(f"{kernel.name} cannot be ejected: {error.why}", error.instead) from None
            packages.append((kernel, error))
    # Where all are refused, no empty folder is left.
    if any(isinstance(package, EjectedPackage) for _, package in packages):
        make_folder(folder)
    written: dict[str, Written] = {}
    for kernel, package in packages:
        if isinstance(package, RefusalError):
            done.append(Ejected(kernel, None, package.why, package.instead))
        else:
            if package.name not in written:
                written[package.name] = write_package(session, package, folder)
            done.append(Ejected(kernel, written[package.name]))
    return tuple(done)


def _show(session: "Session", found: "tuple[Ejected, ...]", model: str, *, json: bool) -> None:
    from ctrace.cli.show import show_document
    from ctrace.inspector.findings.target_gpu_view import target_device
    from ctrace.inspector.session.summary import run_answer
    from ctrace.reports.dump.eject_writing import EjectDocument
    from ctrace.reports.terminal.kernel_files_screen import ejected_screen
    from ctrace.reports.terminal.widgets import led_by_verdict

    document = EjectDocument(run=session.run, target_gpu=target_device(session), kernels=found, model=model)
    show_document(
        document,
        None,
        json=json,
        screen=lambda answer, width: led_by_verdict(run_answer(session), ejected_screen(answer, width)),
    )
