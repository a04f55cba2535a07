"""Run the command and programs of the accuracy study in forks of one process that has imported torch with Inductor.

The forks are those of the tests (`tests/support/warm.py`): what the command does and answers is the same, and a case
takes no four seconds for imports. All cases share one cache of built C++ code, which has its source as its key, so that
a kernel that no fault changes is built once. `fresh` starts new processes instead, as a user does.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import warm  # noqa: E402 - the checkout has to be on the path

_VARIABLES = ("ACCURACY_",)
"""The starts of names of variables that the study's own files read, once torch is imported."""
_CODE = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    "from tests.support import warm; "
    f"warm._LATE += {_VARIABLES!r}; warm.use(); "
    "from ctrace.cli.main import app; app(prog_name='ctrace')"
)
warm._LATE += _VARIABLES


class Runs:
    """Runs commands and programs, each in a process of its own."""

    def __init__(self, cache: Path, *, fresh: bool = False) -> None:
        self._variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        self._server = None if fresh else warm.WarmServer()

    def command(self, words: list[str], variables: dict[str, str], seconds: float) -> warm.Completed:
        """Run `ctrace WORD...`.

        Raises:
            subprocess.TimeoutExpired: it was ended after these seconds.
        """
        server = self._server
        start = ["-m", "ctrace"] if server is None else ["-c", _CODE]
        return subprocess.run(
            [sys.executable, *start, *words],
            env={**self._variables, **(server.variables if server else {}), **variables},
            pass_fds=server.inherited if server else (),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def program(self, words: list[str], variables: dict[str, str], seconds: float) -> warm.Completed:
        """Run `python WORD...`.

        Raises:
            subprocess.TimeoutExpired: it was ended after these seconds.
        """
        variables = {**self._variables, **variables}
        if self._server is not None:
            done = self._server.run(words, Path.cwd(), variables, seconds)
            if done is not None:
                return done
        return subprocess.run(
            [sys.executable, *words], env=variables, capture_output=True, text=True, check=False, timeout=seconds
        )

    def close(self) -> None:
        """End the process that forks."""
        if self._server is not None:
            self._server.close()
