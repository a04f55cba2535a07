"""Run a job of a check on a worker of a Ray cluster, as the command that started the check would."""

import os
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.features.check.gate_model import CheckJob
from ctrace.inspector.features.check.pool import run_jobs
from ctrace.inspector.features.check.trust import seen
from ctrace.inspector.features.check.verdict import SeenJob
from ctrace.inspector.runs.store import Store

_PREFIXES = ("TORCH", "PYTORCH", "TRITON", "CTRACE", "PYTHON", "MKL", "INDUCTOR")
"""Variables that change what a model compiles to. Those that name devices are the worker's own."""


class Surroundings(Struct, frozen=True):
    """What a job needs of the process that started the check; a worker sees the same folders."""

    folder: str
    """The working directory."""
    root: Path
    runs: Path
    owned: tuple[str, ...]
    variables: dict[str, str]
    keep: int
    """How many runs stay: the check's own, and as many older ones as always."""


class Remote(Struct, frozen=True):
    """What a check keeps of a job that ran on a worker."""

    seen: SeenJob
    left: tuple[str, ...]
    """Processes that the program left running and that ctrace killed."""


def surroundings(root: Path, store: Store, owned: tuple[str, ...], jobs: int) -> Surroundings:
    """Return those of this process, for a check of so many jobs."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)}
    return Surroundings(str(Path.cwd()), root.absolute(), store.root.absolute(), owned, variables, store.keep + jobs)


def run_here(job: CheckJob, at: Surroundings) -> Remote:
    """Run one job in a child process of this worker, whose tasks come one after the other.

    Raises:
        OSError: the worker does not have the folder.
    """
    os.chdir(at.folder)
    os.environ.update(at.variables)
    (ran,) = run_jobs([job], store=Store(at.runs, at.keep), at_a_time=1, owned=at.owned, forks=False)
    return Remote(seen(ran, at.root), ran.left)
