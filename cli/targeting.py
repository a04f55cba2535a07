"""`--target`: the runs that were emitted for one GPU or for several, and those that have to be made for it."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ctrace.cli.capturing import Request, captured, saved
from ctrace.inspector.errors import CtraceError, RunError, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.model.session import Session
    from ctrace.inspector.runs.order import Options
    from ctrace.inspector.runs.store import Run, Store
    from ctrace.inspector.runs.target import Resolved

_ONE = "name its file instead of a saved run, and it is run for each: ctrace kernels model.py --target a100,h100"


@dataclass(frozen=True, slots=True)
class Several:
    """What was emitted for several GPUs, in the order in which they were named."""

    sessions: "dict[str, Session]" = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Why nothing was captured, by GPU."""
    is_new: bool = True


def session_for(request: Request, name: str, written: str, store: "Store") -> "tuple[Session, bool]":
    """Read the saved run that is meant, if it was emitted for the GPU, or run the target; also say which.

    `written` is how the command line names the GPU, perhaps by its file.

    Raises:
        CtraceError: the command line, the target or the run is wrong.
    """
    found = saved(request.target, store)
    if found is None:
        return captured(*_asked(request, written), request.timeout, store, request.name), True
    if _is_for(found, name):
        return found, False
    if request.target is None:
        return captured(*_again(request, store.load(), written), request.timeout, store), True
    what = f"{request.target} was not emitted for {name}"
    raise TargetError(what, f"run what it is of for it: ctrace kernels model.py --target {written}")


def _is_for(session: "Session", name: str) -> bool:
    return session.gpu is not None and session.gpu.target == name


def _read(run: "Run") -> "Session":
    from ctrace.inspector.runs.load import load

    return load(run)


def _again(request: Request, run: "Run", name: str) -> "tuple[Resolved, Options]":
    """Return what a saved run was made of, for a GPU; what the command line asks for comes over its own options.

    Raises:
        RunError: the run was not made here, or of something outside of the project: a clone may hold any run.
    """
    from ctrace.cli.console import say
    from ctrace.inspector.runs.order import Options
    from ctrace.inspector.runs.rerun import merged, order_of, refuse_foreign, resolved_of, what_of

    order = order_of(run)
    options = merged(order.options, Options(**request.options))
    refuse_foreign(run, order, f"--target {name}")
    say(f"ctrace: running {what_of(order)} again for {name}, with the options of the last run, {run.name}")
    return resolved_of(order), replace(options, target=name, build=False)


def _asked(request: Request, name: str) -> "tuple[Resolved, Options]":
    from ctrace.inspector.runs.order import Options
    from ctrace.inspector.runs.target import resolve

    options = Options(**{**request.options, "target": name})
    return resolve(str(request.target), request.args, has_inputs=bool(options.inputs)), options


def sessions_for(request: Request, names: Mapping[str, str]) -> Several:
    """Read the last runs, if they were emitted for these GPUs from the same, or run the target for each.

    Raises:
        CtraceError: the command line or the target is wrong, or nothing was captured for any.
    """
    from ctrace.inspector.runs.store import Store

    store = Store()
    if request.target is None:
        if known := _last(store, names):
            return Several(known, is_new=False)
        last = store.load()
        return _all(names, store, request.timeout, lambda written: _again(request, last, written))
    if saved(request.target, store) is not None:
        raise TargetError(f"{request.target} is a saved run: it has code for one GPU at most", _ONE)
    return _all(names, store, request.timeout, lambda written: _asked(request, written))


def _last(store: "Store", names: Iterable[str]) -> "dict[str, Session]":
    """Read the last runs, where they are of the same, one for each GPU; else nothing."""
    from ctrace.inspector.runs.rerun import order_of, same_but_for_gpu

    wanted = list(names)
    runs = [run for run in store.runs() if not run.is_active][-len(wanted) :]
    try:
        orders = [order_of(run) for run in runs]
    except RunError:
        return {}
    by_name = {order.gpu.name: run for order, run in zip(orders, runs, strict=True) if order.gpu is not None}
    if set(by_name) != set(wanted) or len(runs) != len(wanted):
        return {}
    if not all(same_but_for_gpu(orders[0], other) for other in orders):
        return {}
    return {name: _read(by_name[name]) for name in wanted}


def _all(
    names: Mapping[str, str],
    store: "Store",
    timeout: float | None,
    what: "Callable[[str], tuple[Resolved, Options]]",
) -> Several:
    """Run a target for each GPU, as many at a time as there are cores; one that fails does not stop the others."""
    from concurrent.futures import ThreadPoolExecutor

    from ctrace.inspector.runs.child import ChildProcess

    wanted = {name: what(written) for name, written in names.items()}
    several = Several()
    errors: list[CtraceError] = []
    with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        children = {name: ChildProcess() for name in wanted}
        try:
            running = {
                name: pool.submit(captured, *one, timeout, store, child=children[name]) for name, one in wanted.items()
            }
            for name, result in running.items():
                try:
                    several.sessions[name] = result.result()
                except CtraceError as error:
                    errors.append(error)
                    several.failed[name] = error.what
        except BaseException:  # such as a signal: the pool would wait for all of them
            for child in children.values():
                child.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if not several.sessions:
        raise errors[0]
    return several
