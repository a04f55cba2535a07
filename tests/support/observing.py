"""Whether this system reports what a program asks of it; containers may forbid seccomp."""

import subprocess
import sys
from pathlib import Path

import pytest

from ctrace.inspector.processes import system_calls

_TRY = """
import os, system_calls
try: system_calls.install()
except system_calls.NotObservableError as error: os.write(1, str(error).encode())
os._exit(0)  # nobody listens
"""


def _why_not() -> str:
    """Try it in a process of its own; return why it is impossible, empty if it is not."""
    if sys.platform != "linux":
        return "only Linux reports what a program asks"
    folder = Path(system_calls.__file__).parent
    done = subprocess.run([sys.executable, "-S", "-c", _TRY], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


UNOBSERVABLE = _why_not()
observable = pytest.mark.skipif(bool(UNOBSERVABLE), reason=UNOBSERVABLE or "-")


def not_cached(*models: str) -> list[str]:
    """Return the notes of a check whose models would be cached if this system could observe them."""
    if not UNOBSERVABLE:
        return []
    why = "see all that it asks: " + UNOBSERVABLE if sys.platform == "linux" else "see here which files it looks for"
    return [f"not cached: {', '.join(models)}: ctrace cannot {why}"]
