"""Turn logs that TORCH_TRACE wrote elsewhere into jobs of a check: one for each rank or process."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ctrace.inspector.errors import RunError
from ctrace.inspector.gate.model import TRACE, Job, JobKey, Ran
from ctrace.inspector.gate.policy.model import Policy
from ctrace.inspector.runs.load import load_log
from ctrace.inspector.runs.request import Options

_RANK = re.compile(r"_rank_(\d+)_")
"""The rank in a log's name (torch/_logging/_internal.py, `LazyTraceHandler`, 2.11 to 2.13)."""


def traced(path: Path, name: str, policy: Policy) -> Iterator[Ran]:
    """Read each log; in the lock, all logs are one job, `name`, because ranks run the same program.

    Raises:
        RunError: there is no log.
    """
    logs = sorted(path.glob("*.log")) if path.is_dir() else [path]
    if not path.exists() or not logs:
        raise RunError(f"{path} has no trace log", "name the TORCH_TRACE folder, or one of its logs")
    known = JobKey(name, target=TRACE)
    for log, label in zip(logs, labels(logs), strict=True):
        key = JobKey(name, label, TRACE) if label else known
        yield _read(Job(key, str(log), Options(), policy.limits, known_as=known), log)


def labels(logs: Iterable[Path]) -> list[str]:
    """Name logs by rank, and by number if several share a rank or have none; a single log needs no name."""
    ranks = [f"rank {match[1]}" if (match := _RANK.search(log.name)) else "process" for log in logs]
    if ranks == ["process"]:
        return [""]
    numbers: dict[str, int] = {}
    found = []
    for rank in ranks:
        numbers[rank] = numbers.get(rank, 0) + 1
        found.append(rank if ranks.count(rank) == 1 else f"{rank} #{numbers[rank]}")
    return found


def _read(job: Job, log: Path) -> Ran:
    try:
        return Ran(job, load_log(log))
    except RunError as error:
        return Ran(job, error=error)
