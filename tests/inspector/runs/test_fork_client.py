"""The command's side of the process that forks captures, with servers that import nothing slow."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctrace.inspector.processes.forking import RESTART
from ctrace.inspector.processes.spawned import Process
from ctrace.inspector.runs import fork_client as module
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.fork_client import ForkServer
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux only")

SERVES = f"""
import json, os, socket, sys, time
sys.path.insert(0, {str(ROOT)!r})
from ctrace.inspector.processes.forking import fork_and_watch
control = socket.socket(fileno=int(sys.argv[1]))
control.sendall(json.dumps({{"modules": ["x"]}}).encode())
while True:
    data, numbers, _, _ = socket.recv_fds(control, 65536, 16)
    if not data:
        os._exit(0)
    line, out, err, *inherited = numbers
    if fork_and_watch(line, out, err, [control]):
        break
    for number in numbers:
        os.close(number)
exec(json.loads(data)["arguments"][0])
"""
REFUSES = 'import socket, sys; socket.socket(fileno=int(sys.argv[1])).sendall(b\'{"refused": "two threads"}\')'
NEVER_READY = "import time; time.sleep(60)"
DIES = "raise SystemExit(1)"
REQUEST = CaptureRequest("model", __file__, None, None, (), Options(trace_only=True), "")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ForkServer]]:
    made: list[ForkServer] = []

    def make(code: str) -> ForkServer:
        monkeypatch.setattr(module, "python", lambda _module, *words, **_more: [sys.executable, "-c", code, *words])
        monkeypatch.setattr(module, "why_new_process", lambda _request, **_more: "")
        made.append(ForkServer(os.environ))
        return made[-1]

    yield make
    for each in made:
        each.close()


def fork(server: ForkServer, code: str, output: int) -> Process | None:
    return server.fork(REQUEST, [code], os.environ, (output, output), ())


def outcome(process: Process | None) -> int:
    assert process is not None
    deadline = time.monotonic() + 30
    while (status := process.poll(0.05)) is None:
        assert time.monotonic() < deadline
    return status


@pytest.mark.parametrize(
    ("code", "status"), [("pass", 0), ("raise SystemExit(7)", 7), ("os.kill(os.getpid(), 11)", -11), ("os._exit(3)", 3)]
)
def test_a_fork_ends_as_a_program_does(code: str, status: int, server: Callable[[str], ForkServer]) -> None:
    reading, writing = os.pipe()
    process = fork(server(SERVES), f"print('hello', flush=True); {code}", writing)
    os.close(writing)
    assert outcome(process) == status
    assert process is not None
    assert process.finish() == ()
    with os.fdopen(reading) as output:  # the loop ends, because the watcher and the server keep no copy of the pipe
        assert output.read() == "hello\n"


def test_a_fork_has_the_signals_of_a_new_process(server: Callable[[str], ForkServer]) -> None:
    code = "import signal; print({str(each): str(signal.getsignal(each)) for each in signal.valid_signals()})"
    reading, writing = os.pipe()
    assert outcome(fork(server(SERVES), code, writing)) == 0
    os.close(writing)
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    with os.fdopen(reading) as output:
        assert output.read() == alone


def test_what_a_fork_leaves_running_is_killed(server: Callable[[str], ForkServer]) -> None:
    reading, writing = os.pipe()
    process = fork(
        server(SERVES),
        "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)",
        writing,
    )
    os.close(writing)
    assert outcome(process) == 0
    assert process is not None
    assert [each.split()[0] for each in process.finish()] == ["sleep"]
    with os.fdopen(reading) as output:
        assert not Path("/proc", output.readline().strip()).exists()


def test_to_close_the_server_ends_its_forks(server: Callable[[str], ForkServer]) -> None:
    one = server(SERVES)
    reading, writing = os.pipe()
    process = fork(one, "import time; print(os.getpid(), flush=True); time.sleep(60)", writing)
    os.close(writing)
    with os.fdopen(reading) as output:
        pid = output.readline().strip()
        one.close()
        assert outcome(process) != 0
        assert not Path("/proc", pid).exists()


@pytest.mark.parametrize(
    ("code", "why"), [(REFUSES, "two threads"), (DIES, "it could not import torch")], ids=["refuses", "dies"]
)
def test_without_a_server_there_is_no_fork(code: str, why: str, server: Callable[[str], ForkServer]) -> None:
    one = server(code)
    _reading, writing = os.pipe()
    assert fork(one, "pass", writing) is None
    assert one.why_not == why
    assert fork(one, "pass", writing) is None


def test_who_is_not_wanted_does_not_wait(server: Callable[[str], ForkServer]) -> None:
    _reading, writing = os.pipe()
    began = time.monotonic()
    one = server(NEVER_READY)
    assert one.fork(REQUEST, [], os.environ, (writing, writing), (), lambda: False) is None
    assert time.monotonic() - began < 30


def test_another_environment_or_kind_of_stream_is_a_new_process(
    server: Callable[[str], ForkServer], tmp_path: Path
) -> None:
    one = server(NEVER_READY)
    _reading, writing = os.pipe()
    assert one.fork(REQUEST, [], {**os.environ, "TORCH_LOGS": "x"}, (writing, writing), ()) is None
    with (tmp_path / "file").open("wb") as file:
        assert one.fork(REQUEST, [], os.environ, (file, file), ()) is None
    assert one.fork(REQUEST, [], os.environ, (None, None), ()) is None
    assert one._process is None, "no server was started for them"


def test_other_systems_have_no_server(server: Callable[[str], ForkServer], monkeypatch: pytest.MonkeyPatch) -> None:
    one = server(SERVES)
    monkeypatch.setattr(sys, "platform", "darwin")
    _reading, writing = os.pipe()
    assert fork(one, "pass", writing) is None
    assert one.why_not == "darwin cannot fork such a process"


@pytest.mark.parametrize(
    ("code", "restarts"),
    [
        (f"os._exit({RESTART})", True),
        ("os._exit(0)", False),
        ("time.sleep(1); os.kill(os.getppid(), 9); time.sleep(9)", False),
    ],
)
def test_only_a_fork_that_asks_for_it_is_done_again(
    code: str, restarts: bool, server: Callable[[str], ForkServer]
) -> None:
    child = ChildProcess(server=server(SERVES))
    _reading, writing = os.pipe()
    with child.forked(REQUEST, [code], os.environ, (writing, writing)) as is_forked:
        assert is_forked
        deadline = time.monotonic() + 30
        while child.status() is None:
            assert time.monotonic() < deadline
        assert child.wants_restart == restarts
