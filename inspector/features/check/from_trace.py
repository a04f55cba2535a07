"""Turn logs that TORCH_TRACE wrote elsewhere into jobs of a check, one job per rank or process."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.features.check.gate_model import TRACE, CheckJob, FinishedJob, JobKey
from ctrace.inspector.features.check.policy.policy_model import CheckPolicy
from ctrace.inspector.features.check.trust import seen
from ctrace.inspector.features.check.verdict import SeenJob
from ctrace.inspector.log.files import rank_of
from ctrace.inspector.log.folders import LogFile, absolute, logs_in
from ctrace.inspector.log.rotation import one_file, rotation_note
from ctrace.inspector.processes.engines import Engine, results_of
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.load import load_log

_PARALLEL_BYTES = 32 << 20
"""Below this total size, one process reads the logs faster than a second process starts."""


def traced(
    path: Path, name: str, policy: CheckPolicy, root: Path, engine: Engine = Engine.PROCESSES
) -> Iterator[SeenJob]:
    """Read each log as one job. In the lock, all of them share the key `name`, because ranks run the same program.

    Raises:
        RunError: there is no log, or Ray cannot start.
        SetupError: Ray is not installed.
    """
    logs = _logs(path)
    if not logs:
        raise RunError(f"{path} has no trace log", "name the TORCH_TRACE folder, or one of its logs")
    known = JobKey(name, target=TRACE)
    calls = []
    for log, label in zip(logs, labels(each.rank for each in logs), strict=True):
        key = JobKey(name, label, TRACE) if label else known
        job = CheckJob(key, str(log.path), Options(), policy.limits, known_as=known)
        calls.append((job, absolute(log), root.absolute()))
    yield from results_of(_read, calls, engine, is_large=sum(log.bytes for log in logs) > _PARALLEL_BYTES)


def _logs(path: Path) -> list[LogFile]:
    """List the logs of a folder, and what has the name of one and is no file, which is reported."""
    if path.is_dir():
        found = logs_in(path)
        others = [each.path for each in found.skipped if each.is_log]
        others += [each for each in sorted(path.glob("*.log")) if os.path.isdir(each)]  # noqa: PTH112 - never raises
        return [*found.logs, *(LogFile(each, None, 0) for each in others)]
    if path.exists():
        return [LogFile(path, rank_of(path), path.stat().st_size)]
    return []


def labels(ranks: Iterable[int | None]) -> list[str]:
    """Name each log by its rank, and by a number if its rank is not unique or not known; a single log without a rank
    needs no name.
    """
    names = ["process" if rank is None else f"rank {rank}" for rank in ranks]
    if names == ["process"]:
        return [""]
    numbers: dict[str, int] = {}
    found = []
    for name in names:
        numbers[name] = numbers.get(name, 0) + 1
        found.append(name if names.count(name) == 1 else f"{name} #{numbers[name]}")
    return found


def _read(job: CheckJob, log: LogFile, root: Path) -> SeenJob:
    try:
        with one_file(log.path, log.parts) as path:
            found = seen(FinishedJob(job, load_log(path)), root)
    except RunError as error:
        return seen(FinishedJob(job, error=error), root)
    if found.state is None or not log.parts:
        return found
    return replace(found, state=replace(found.state, notes=(*found.state.notes, rotation_note(log.parts))))
