"""Choose the kernels that `ctrace kernels eject` writes, write them, and say what was written and what was not."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ctrace.cli.view_run import Request, session_of
from ctrace.inspector.errors import Exit, TargetError, did_you_mean

if TYPE_CHECKING:
    from ctrace.inspector.facts.kernels import Kernel
    from ctrace.inspector.facts.session import Session
    from ctrace.reports.json.package_results import Ejected


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
    kernels = _chosen(session, request) if session.kernels or code is Exit.DONE else ()
    found = _eject(session, kernels, folder, is_lenient=request.all_of_it or bool(request.line))
    is_model = bool(session.parts) and run.target is not None and ".py" in run.target
    _show(session, found, request, (run.target or "") if is_model else "")
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
        from ctrace.cli.kernel_views import KernelView, of_line

        _, at_line, why = of_line(session, request.line, KernelView(line=request.line), found)
        if not at_line:
            raise TargetError(f"--line {request.line}: no kernel contains it", why)
        wanted = {id(each.row.kernel) for _, rows in at_line for each in rows}
        return tuple(each for each in kernels if id(each) in wanted and each.language != "external")
    if request.all_of_it:
        return tuple(each for each in kernels if each.language != "external")
    if not kernels:
        raise TargetError(f"{request.names[0]}: this run has no kernel", "capture the model: --of model.py")
    return tuple(_named(kernels, name) for name in request.names)


def _named(kernels: "tuple[Kernel, ...]", name: str) -> "Kernel":
    from ctrace.inspector.features.workshop.eject_kernel import op_name

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
    from ctrace.reports.dump.eject_writing import Written, make_folder, write_package
    from ctrace.reports.json.package_results import Ejected

    done: list[Ejected] = []
    packages: list[tuple[Kernel, EjectedPackage | RefusalError]] = []
    for kernel in kernels:
        try:
            packages.append((kernel, package_of(session, kernel)))
        except RefusalError as error:
            if not is_lenient:
                raise TargetError(f"{kernel.name} cannot be ejected: {error.why}", error.instead) from None
            packages.append((kernel, error))
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


def _show(session: "Session", found: "tuple[Ejected, ...]", request: EjectRequest, model: str) -> None:
    from ctrace.cli.console import write_report
    from ctrace.cli.show import show_screen
    from ctrace.reports.json.package_results import render_ejected_json
    from ctrace.reports.terminal.kernel_files_screen import ejected_screen
    from ctrace.reports.terminal.widgets import led_by_verdict

    if request.json:
        write_report(render_ejected_json(session, found), None)
    else:
        show_screen(lambda width: led_by_verdict(session, ejected_screen(found, width, model)), None)
