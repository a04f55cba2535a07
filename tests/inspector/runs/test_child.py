"""Processes end with all of their descendants, for programs that import nothing slow."""

import errno
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ctrace.inspector.errors import SetupError
from ctrace.inspector.processes.spawned import Grouped, WatchedProgram, started
from ctrace.inspector.runs.child import ChildProcess
from tests.support.places import ROOT
from tests.support.sampling import sampled

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
DAEMON = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
"""
CHILD = "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\n"
SLEEPS = "print('up', flush=True)\nimport time\ntime.sleep(60)\n"


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def alive(mark: str) -> list[int]:
    """Find the living processes with a marker in their environment."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MARK={mark}".encode() in (each / "environ").read_bytes():
                found.append(int(each.name))
    return found


@contextmanager
def running(code: str, mark: str, tmp_path: Path, child: ChildProcess | None = None) -> Iterator[ChildProcess]:
    child = child or ChildProcess()
    with (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-I", "-c", code]
        with child.running(command, {**os.environ, "MARK": mark}, out, out):
            yield child


def wait(child: ChildProcess) -> int:
    while (status := child.status()) is None:
        time.sleep(0.01)
    return status


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("code", "status"),
    [("", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 11)", -11), ("import os; os.abort()", -6)],
)
def test_the_status_is_the_programs(code: str, status: int, mark: str, tmp_path: Path) -> None:
    with running(code, mark, tmp_path) as child:
        assert wait(child) == status
    assert child.left == ()


@linux
def test_what_a_program_leaves_running_is_ended_and_named(mark: str, tmp_path: Path) -> None:
    with running(CHILD + DAEMON, mark, tmp_path) as child:
        assert wait(child) == 0
        assert alive(mark) == []
    assert len(child.left) == 2
    assert any(each.startswith("sleep 60 (") for each in child.left)


@linux
def test_what_ends_by_itself_is_not_named(mark: str, tmp_path: Path) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '0.3'])\n"
    with running(code, mark, tmp_path) as child:
        assert wait(child) == 0
    assert child.left == ()


@linux
def test_an_exception_here_ends_it_all(mark: str, tmp_path: Path) -> None:
    began = 0.0

    def fail() -> None:
        nonlocal began
        with running(CHILD + DAEMON + SLEEPS, mark, tmp_path):
            until(lambda: b"up" in (tmp_path / "out").read_bytes())
            began = time.monotonic()
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert alive(mark) == []
    assert time.monotonic() - began < 2


@linux
def test_nothing_hides_from_the_watcher(mark: str, tmp_path: Path) -> None:
    deaf = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
    with running(deaf + CHILD + DAEMON + SLEEPS, mark, tmp_path) as child:
        until(lambda: b"up" in (tmp_path / "out").read_bytes())
        assert child.kill() == -9
        assert alive(mark) == []
        assert child.status() == -9


@linux
def test_a_watcher_that_is_killed_leaves_nothing_either(mark: str, tmp_path: Path) -> None:
    with running(CHILD + DAEMON + SLEEPS, mark, tmp_path) as child:
        until(lambda: b"up" in (tmp_path / "out").read_bytes())
        process = child._process
        assert isinstance(process, WatchedProgram)
        os.kill(process._watcher.pid, signal.SIGKILL)
        assert wait(child) == -9
        assert alive(mark) == []


_PARENT = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from ctrace.inspector.runs.child import ChildProcess
with ChildProcess(has_terminal=bool(int(sys.argv[2]))).running([sys.executable, "-c", sys.argv[1]], os.environ):
    import time
    time.sleep(60)
"""


@linux
@pytest.mark.parametrize("shares", sampled(["0", "1"]), ids=["alone", "shares the terminal"])
@pytest.mark.parametrize("number", sampled([signal.SIGKILL, signal.SIGTERM, signal.SIGQUIT]))
@pytest.mark.parametrize("whom", sampled(["command", "group"]))
def test_whatever_ends_the_command_ends_it_all(shares: str, number: signal.Signals, whom: str, mark: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, CHILD + DAEMON + SLEEPS, shares],
        env={**os.environ, "MARK": mark},
        stdout=subprocess.PIPE,
        start_new_session=True,
        # A background command of a shell ignores SIGINT and SIGQUIT, and its children inherit that.
        preexec_fn=lambda: number is signal.SIGKILL or signal.signal(number, signal.SIG_DFL),
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    (os.killpg if whom == "group" else os.kill)(parent.pid, number)
    parent.wait(60)
    parent.stdout.close()
    began = time.monotonic()
    until(lambda: not alive(mark))
    assert time.monotonic() - began < 2


def test_a_system_that_starts_nothing_is_an_error_of_two_lines(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_rest: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(SetupError, match="cannot be started") as caught, running("", mark, tmp_path):
        pass
    assert "ulimit -u" in caught.value.todo


@linux
def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    process = started(["/nowhere/python"], {}, subprocess.DEVNULL, subprocess.DEVNULL)
    with pytest.raises(FileNotFoundError):
        process.poll(5)


@linux
def test_few_descriptors_are_an_error_of_two_lines(tmp_path: Path) -> None:
    code = (
        "import resource, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from ctrace.inspector.runs.child import ChildProcess\n"
        "import ctrace.inspector.processes.spawned, socket, fcntl, select\n"
        "from ctrace.inspector.errors import SetupError\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))\n"
        "try:\n"
        "    with ChildProcess().running([sys.executable, '-c', ''], {}): pass\n"
        "except SetupError as error:\n"
        "    print(error.todo)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "too many files are open: raise ulimit -n\n", done.stderr


def test_elsewhere_a_group_is_killed(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with running("import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + SLEEPS, mark, tmp_path) as child:
        assert isinstance(child._process, Grouped)
        until(lambda: b"up" in (tmp_path / "out").read_bytes())
        assert child.kill() == -9
    until(lambda: not alive(mark))


@linux
def test_nothing_of_ours_stays_open(mark: str, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with running("", mark, tmp_path) as child:
            wait(child)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@linux
def test_the_program_finds_signals_and_environment_as_they_were(tmp_path: Path) -> None:
    code = (
        "import os, signal, json\n"
        "print(json.dumps([{n.name: str(signal.getsignal(n)) for n in signal.Signals}, dict(os.environ),"
        " sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))]))"
    )
    command = [sys.executable, "-c", code]
    environment = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "ODD": "a=b\nc"}
    plain = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    with (tmp_path / "out").open("wb") as out:
        process = started(command, environment, out, out)
        assert process.poll(20) == 0
        process.finish()
    assert (tmp_path / "out").read_bytes() == plain
