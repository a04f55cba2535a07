"""The pytest plugin: a fixture `ctrace` that checks models in tests. It imports nothing before a test uses it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ctrace.cli.gate.fixture import Checks
    from ctrace.inspector.features.check.ratchet import LockOfTests

_LOCK: "pytest.StashKey[LockOfTests]" = pytest.StashKey()
_MESSAGE: pytest.StashKey[str] = pytest.StashKey()
_SENT = "ctrace_seen"
"""Key under which a pytest-xdist worker sends its results."""


def pytest_addoption(parser: "pytest.Parser") -> None:
    """Add our options."""
    group = parser.getgroup("ctrace", "torch.compile, checked by ctrace")
    group.addoption(
        "--ctrace-update",
        action="store_true",
        help="Record the results of checks without numbers in the lock; they pass.",
    )
    group.addoption("--ctrace-lock", metavar="FILE", help="Use FILE as the lock. Default: ctrace.lock in rootdir.")


@pytest.fixture
def ctrace(request: "pytest.FixtureRequest") -> "Checks":
    """Check that a model compiles: `ctrace.check(model, inputs, graph_breaks=0)`; without numbers, the lock decides."""
    from ctrace.cli.gate.fixture import Checks

    config = request.config
    return Checks(_node_id(request.node), _lock(config), config.rootpath, update=config.getoption("ctrace_update"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the lock, or send this worker's results to the process that writes it."""
    config = session.config
    if _LOCK not in config.stash:
        return
    lock = config.stash[_LOCK]
    # pytest-xdist sets this in its workers, which would overwrite each other's lock.
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SENT] = lock.to_text()
    elif lock.kept:
        _write(session, lock)


# Without pytest-xdist, pytest refuses a hook that it does not know.
@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the results of a pytest-xdist worker; a crashed worker sends none."""
    sent = getattr(node, "workeroutput", {}).get(_SENT)
    if sent is not None:
        _lock(node.config).take(sent)


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", config: pytest.Config) -> None:
    """Report whether the lock was written, and which checks it lacks."""
    if _MESSAGE in config.stash:
        terminalreporter.write_line(f"ctrace: {config.stash[_MESSAGE]}")
    elif _LOCK in config.stash and (unknown := len(config.stash[_LOCK].unknown)):
        checks = f"{unknown} check{' is' if unknown == 1 else 's are'}"
        limits = "no graph break, no eager function, no recompilation after warm-up"
        terminalreporter.write_line(f"ctrace: {checks} not in the lock; the limits are: {limits}")
        terminalreporter.write_line("ctrace: to record the current state, run pytest --ctrace-update")


def _node_id(item: pytest.Item) -> str:
    """Name a test by its node id, without the group that xdist's `--dist loadgroup` appends."""
    if item.parent is not None:
        return f"{item.parent.nodeid}::{item.name}"
    return item.nodeid


def _lock(config: pytest.Config) -> "LockOfTests":
    from ctrace.inspector.features.check.lock_file import NAME
    from ctrace.inspector.features.check.ratchet import LockOfTests

    if _LOCK not in config.stash:
        option = config.getoption("ctrace_lock")
        # As any path on the command line: relative to where pytest was started, not to rootdir.
        path = config.invocation_params.dir / option if option else config.rootpath / NAME
        config.stash[_LOCK] = LockOfTests(Path(path), config.rootpath)
    return config.stash[_LOCK]


def _write(session: pytest.Session, lock: "LockOfTests") -> None:
    """Write the lock; if that fails, fail the session."""
    from ctrace.inspector.errors import CtraceError
    from ctrace.inspector.knowledge.counting import count

    try:
        action = "wrote" if lock.write() else "nothing new for"
        message = f"{action} {lock.path} ({count(lock.kept, 'check')})"
    except CtraceError as error:
        message = f"{error.what}: {error.todo}"
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    session.config.stash[_MESSAGE] = message
