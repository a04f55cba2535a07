"""Run the real `ctrace` command in a separate folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.warm import WarmServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in this folder as integration tests: they compile for real."""
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.integration)


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """The JSON report on stdout."""
        data: dict[str, Any] = json.loads(self.out)
        return data


@dataclass(frozen=True)
class Command:
    """Runs `ctrace` with the working directory `folder`; with a server, captures are forks of it (`support/warm.py`)."""

    folder: Path
    server: WarmServer | None = None

    def __call__(self, *words: str, stdin: str = "", timeout: float = 280, **environment: str) -> Result:
        # The checkout is on the path of this process only: the program under ctrace must not need it there.
        boot = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support import warm; warm.use(); "
            "from ctrace.cli.main import app; app(prog_name='ctrace')"
        )
        warm = {} if self.server is None else self.server.variables
        done = subprocess.run(
            [sys.executable, "-c", boot, *words],
            cwd=self.folder,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache"), **warm, **environment},
            pass_fds=() if self.server is None else self.server.inherited,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def python(self, *words: str, timeout: float = 280, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run `python FILE WORD...` without `ctrace`, in the folder; with a server, it is a fork of it."""
        variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache"), **environment}
        if self.server is not None and (done := self.server.run(words, self.folder, variables, timeout)) is not None:
            return done
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def ctrace(tmp_path: Path, warm_server: WarmServer | None) -> Command:
    """Runs commands whose captures are forks of a process that has imported torch."""
    return Command(tmp_path, warm_server)


@pytest.fixture
def fresh_ctrace(tmp_path: Path) -> Command:
    """Runs commands whose captures are new processes, as a user's are."""
    return Command(tmp_path)


Runner = Callable[..., Result]
