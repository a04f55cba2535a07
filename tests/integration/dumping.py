"""Dump a run, and run every file in a separate process."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from ctrace.reports.dump.dumped import Dumped
from ctrace.reports.dump.dumping import dump
from tests.integration.conftest import Command

AT_ONCE = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class Ran:
    """The result of running a dumped file."""

    file: str
    code: int
    out: str
    err: str


def dumped(ctrace: Command, *words: str) -> Dumped:
    """Explain a target and dump the run."""
    done = ctrace("explain", *words)
    assert done.code == 0, done.err
    session = load(Store(ctrace.folder / ".ctrace").runs()[-1])
    return dump(session, ctrace.folder / "dump")


def run(ctrace: Command, path: Path, *words: str) -> Ran:
    """Run a file as a user would: from another folder, without ctrace on the path."""
    done = subprocess.run(
        [sys.executable, str(path), *words],
        cwd=ctrace.folder,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(ctrace.folder / "cache"), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return Ran(path.name, done.returncode, done.stdout, done.stderr)


def run_all(ctrace: Command, made: Dumped) -> list[Ran]:
    """Run all wrappers, which build the kernels, then all kernels; fail if one fails."""
    files = [path for path in made.files if path.suffix == ".py" and path.name != "graph.py"]
    ran = [run(ctrace, path) for path in files if path.name == "wrapper.py"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ran += pool.map(partial(run, ctrace), [path for path in files if path.name != "wrapper.py"])
    bad = [each for each in ran if each.code]
    assert not bad, "\n".join(f"{each.file}: {each.code}\n{each.out}\n{each.err}" for each in bad)
    return ran


def wrappers(ran: list[Ran]) -> list[Ran]:
    """Return the results of the wrappers."""
    return [each for each in ran if each.file == "wrapper.py"]
