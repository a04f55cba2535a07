"""Run a command for several GPUs at once (`--target a100,h100`), if the command can compare them: find the runs for
them, or capture one for each.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from msgspec import Struct, field

from ctrace.cli.command_options import Screen
from ctrace.cli.console import check_output
from ctrace.cli.run_request import Request, again_for_gpu, captured, gpu_names, new_for_gpu, saved
from ctrace.inspector.errors import CtraceError, Exit, RunError, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.diagnosis.side_by_side_document import SideBySideDocument
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.store import SavedRun, Store
    from ctrace.inspector.runs.target import Resolved

_ONE = "name its file to run it for each GPU: ctrace kernels model.py --target a100,h100"
D = TypeVar("D")


def shown_side_by_side(
    request: Request,
    output: Path | None,
    *,
    json: bool,
    document: "Callable[[Session], D]",
    screen: "Callable[[SideBySideDocument[D], int], Screen]",
    others: Mapping[str, object],
) -> bool:
    """Compare the code for several GPUs if `--target` names several; return whether it does.

    Raises:
        CtraceError: the command line or the target is wrong, one of the `others` is set, or no run can be captured.
    """
    names = gpu_names(request)
    if len(names) < 2:
        return False
    from ctrace.cli.show import exit_code, show_document
    from ctrace.inspector.diagnosis.side_by_side_document import side_by_side_document

    conflict = next((option for option, value in others.items() if value), None)
    if conflict is not None:
        raise TargetError(
            f"--target {','.join(names)} and {conflict} exclude each other", f"with {conflict}, name one GPU"
        )
    check_output(output)
    found = sessions_for(request, names)
    answer = side_by_side_document(found.sessions, found.failed, document)
    show_document(answer, output, json=json, screen=screen)
    if found.is_new:
        raise typer.Exit(Exit.USAGE if found.failed else max(map(exit_code, found.sessions.values())))
    return True


class Several(Struct, frozen=True):
    """Sessions of several GPUs, in the order of the command line."""

    sessions: "dict[str, Session]" = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The error because of which a GPU has no session."""
    is_new: bool = True


def sessions_for(request: Request, names: Mapping[str, str]) -> Several:
    """Read the last runs, if they are of one target and for these GPUs; otherwise capture the target for each GPU.

    Raises:
        CtraceError: the command line or the target is wrong, or nothing was captured for any.
    """
    from ctrace.inspector.runs.store import Store

    store = Store()
    if request.target is None:
        if known := _last(store, names):
            return Several(known, is_new=False)
        last = store.load()
        return _all(names, store, request.timeout, lambda written: again_for_gpu(request, last, written))
    if saved(request.target, store) is not None:
        raise TargetError(f"{request.target} is a saved run, which has code for one GPU only", _ONE)
    return _all(names, store, request.timeout, lambda written: new_for_gpu(request, written))


def _read(run: "SavedRun") -> "Session":
    from ctrace.inspector.runs.load import load

    return load(run)


def _last(store: "Store", names: Iterable[str]) -> "dict[str, Session]":
    """Return the last runs if they are of one target, one for each GPU; otherwise return nothing."""
    from ctrace.inspector.runs.rerun import request_of, same_but_for_gpu

    gpus = list(names)
    runs = [run for run in store.runs() if not run.is_active][-len(gpus) :]
    try:
        requests = [request_of(run) for run in runs]
    except RunError:
        return {}
    by_name = {request.gpu.name: run for request, run in zip(requests, runs, strict=True) if request.gpu is not None}
    if set(by_name) != set(gpus) or len(runs) != len(gpus):
        return {}
    if not all(same_but_for_gpu(requests[0], other) for other in requests):
        return {}
    return {name: _read(by_name[name]) for name in gpus}


def _all(
    names: Mapping[str, str],
    store: "Store",
    timeout: float | None,
    what: "Callable[[str], tuple[Resolved, Options]]",
) -> Several:
    """Capture a target for each GPU, one per core at a time; a failure does not stop the others."""
    from concurrent.futures import ThreadPoolExecutor

    from ctrace.inspector.runs.child import ChildProcess

    # Before any capture begins, so that a wrong word ends the command at once.
    targets = {name: what(written) for name, written in names.items()}
    several = Several()
    errors: list[CtraceError] = []
    with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        # Made beforehand, so that those that wait for a thread can be ended, too.
        children = {name: ChildProcess() for name in targets}
        try:
            running = {
                name: pool.submit(captured, *one, timeout, store, child=children[name]) for name, one in targets.items()
            }
            for name, result in running.items():
                try:
                    several.sessions[name] = result.result()
                except CtraceError as error:
                    errors.append(error)
                    several.failed[name] = error.what
        except BaseException:  # such as an EndedBySignal; without this, the pool waits for all captures
            for child in children.values():
                child.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if not several.sessions:
        raise errors[0]
    return several
