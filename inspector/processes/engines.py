"""Apply a function to many logs or models: here, in processes, or on a Ray cluster (the extra `ray`)."""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeVar

from ctrace.inspector.errors import RunError, SetupError

# Chosen: few, since each holds what it read of a log in memory.
_PROCESSES = 2
_AT_A_TIME = 256
"""Limit on the tasks that Ray has at once, so that the results of thousands of calls do not pile up."""
_OF_A_LOG = 256 << 20
"""Bytes of memory to reserve for a log: more than reading one takes, as its payloads stay on disk."""
Result = TypeVar("Result")


class Engine(StrEnum):
    """Where logs are read and models run."""

    PROCESSES = "processes"
    RAY = "ray"


def results_of(
    function: Callable[..., Result],
    calls: Sequence[tuple[Any, ...]],
    engine: Engine,
    *,
    is_large: bool,
    memory: int = _OF_A_LOG,
) -> Iterator[Result]:
    """Yield the result of each call in order; small work stays in this process.

    Args:
        function: What to call.
        calls: The arguments of each call.
        engine: Where.
        is_large: Whether the work is worth a second process.
        memory: The bytes that Ray reserves on a worker for a call, beside one core.

    Raises:
        SetupError: Ray is not installed.
        RunError: Ray cannot start, or a worker was lost.
        Exception: what `function` raises.
    """
    if engine is Engine.RAY:
        yield from _on_ray(function, calls, memory)
    elif len(calls) > 1 and is_large and (os.cpu_count() or 1) > 1:
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        try:
            # Not `fork`: this process may have threads, whose locks a fork would inherit as they are.
            with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
                yield from pool.map(function, *zip(*calls, strict=True))
        except BrokenProcessPool:
            raise RunError("a process that read a log was killed", "free some memory, or read fewer logs") from None
    else:
        yield from (function(*call) for call in calls)


def _on_ray(function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], memory: int) -> Iterator[Result]:
    with _ray() as ray:
        # Ray waits forever for more memory than any worker has.
        largest = max((int(node["Resources"].get("memory", 0)) for node in ray.nodes() if node["Alive"]), default=0)
        task = ray.remote(num_cpus=1, memory=min(memory, largest))(function)
        waiting = [task.remote(*call) for call in calls[:_AT_A_TIME]]
        for number in range(len(calls)):
            # In order, so that the results are those of a plain loop.
            found = waiting.pop(0)
            if number + _AT_A_TIME < len(calls):
                waiting.append(task.remote(*calls[number + _AT_A_TIME]))
            try:
                yield ray.get(found)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
            except ray.exceptions.RayError as error:
                what = f"Ray lost a task: {str(error).partition(chr(10))[0]}"
                raise RunError(what, "see Ray's own logs, or work here: --on processes") from None


@contextmanager
def _ray() -> Iterator[Any]:
    """Connect to the cluster that RAY_ADDRESS names, or to one on this machine, which ends with the command."""
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise SetupError("--on ray needs Ray, which is not installed", "pip install 'ctrace[ray]'") from None
    if not hasattr(ray, "is_initialized"):  # a folder of that name is a package, too
        found = ", ".join(getattr(ray, "__path__", ()))
        raise SetupError(f"--on ray needs Ray, but {found} hides it", "rename it, or pip install 'ctrace[ray]'")
    is_ours = not ray.is_initialized()
    if is_ours:
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=None)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            what = f"Ray cannot start: {str(error).partition(chr(10))[0]}"
            raise RunError(what, "check RAY_ADDRESS, or work here: --on processes") from None
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()
