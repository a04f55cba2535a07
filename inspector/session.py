"""From a saved run, or a log made elsewhere, to a Session."""

from pathlib import Path

from ctrace.inspector.build import build
from ctrace.inspector.errors import RunError
from ctrace.inspector.model import Session, Target
from ctrace.inspector.reader import read
from ctrace.inspector.store import Run


def load(run: Run) -> Session:
    """Read a saved run.

    Raises:
        RunError: its log is gone, or a newer ctrace wrote it.
    """
    try:
        return build(read(run.log), run.target, run.failure, run.seconds)
    except OSError as error:
        raise RunError(f"{run.log} cannot be read: {error.strerror}", "run the target again") from None


def load_log(log: Path) -> Session:
    """Read a log that torch wrote elsewhere (TORCH_TRACE).

    Raises:
        RunError: it cannot be read.
    """
    try:
        return build(read(log), Target(path=str(log)))
    except OSError as error:
        raise RunError(f"{log} cannot be read: {error.strerror}", "name a log that TORCH_TRACE made") from None


def only_log(folder: Path) -> Path:
    """Find the one log in a folder that TORCH_TRACE named.

    Raises:
        RunError: there is none, or more than one.
    """
    logs = sorted(folder.glob("*.log"))
    if len(logs) == 1:
        return logs[0]
    if not logs:
        raise RunError(f"{folder} holds no run and no trace log", "name a run, or a folder that TORCH_TRACE wrote to")
    raise RunError(f"{folder} holds {len(logs)} trace logs", f"name one of them, such as {logs[0]}")
