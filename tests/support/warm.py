"""Run the captures of `ctrace` commands in forks of one process that has imported torch with Inductor.

To import both takes four of the five seconds of a small model's capture. So a session of tests imports them once, in a
`WarmServer`, and each command that gets its `variables` forks its captures from there, if it calls `use` first. So do
measurements, the processes that try a kernel, and the process in which `ctrace repro` tries candidates. The capture is
real; only its process did not start anew. A new process still runs whatever could observe the difference:
files that ctrace would not fork either (`inspector/runs/suitable.py`), and captures with other variables that torch
reads while it is imported. `tests/integration/test_warm.py` compares captures of both kinds.
"""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import IO, Any, cast

from ctrace.inspector.features.time.timing_model import TimingRequest
from ctrace.inspector.processes import boot
from ctrace.inspector.processes.spawned import Forked, Process, Stream, socket_pair
from ctrace.inspector.runs import suitable
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.fork_client import ForkServer

_SERVER = "CTRACE_TEST_WARM_SERVER"
"""The variable with the number of the server's socket, and its process id."""
_LATE: tuple[str, ...] = (
    "COLUMNS", "CTRACE_", "CUDA_VISIBLE_DEVICES", "GROUP_", "KINETO_LOG_LEVEL", "LINES", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "MASTER_", "NO_COLOR", "PYTEST_", "RANK", "ROLE_", "TERM", "TORCHELASTIC_", "WORLD_SIZE", "TORCHINDUCTOR_AUTOGRAD_",
    "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_FX_GRAPH_", "TRITON_CACHE_DIR", "XDG_",
)  # fmt: skip
"""The starts of names of variables that nothing reads while torch is imported, or that `warm_server.py` applies."""
_LOGS = ("TORCH_LOGS", "TORCH_TRACE")
"""Variables that `warm_server.py` applies to programs."""
_ADDED = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")
"""Variables that `warm_server.py` applies where the server itself started without them."""
Completed = subprocess.CompletedProcess[str]
CAPTURE = "ctrace.inspector.capture.child_main"
_MEASURING = "ctrace.inspector.features.time.child.timing_main"
_START_SECONDS = 240


class RefusedError(Exception):
    """The server cannot fork: in a build of torch for CUDA, Inductor's imports ask the driver for GPUs."""


class WarmServer:
    """Starts the server, and gives commands access to it. Close it at the end."""

    def __init__(self) -> None:
        self._ours, theirs = socket_pair(socket.SOCK_SEQPACKET)
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        command = boot.python("ctrace.inspector.capture.fork_server", str(theirs.fileno()), str(reading))
        call = "getattr(importlib.import_module(module), function)(loaded)\n"
        (at,) = [index for index, each in enumerate(command) if each.endswith(call)]
        server = Path(__file__).with_name("warm_server.py")
        command[at] = command[at].replace(call, f"import runpy; runpy.run_path({str(server)!r})['serve'](loaded)\n")
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "KINETO_LOG_LEVEL": "99"},  # as measurements set it; read while torch is imported
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            pass_fds=(theirs.fileno(), reading),
            process_group=0,
        )
        for each in (theirs.detach(), reading, writing):
            os.close(each)
        assert select.select([self._ours], [], [], _START_SECONDS)[0], "the server is not ready"
        message = json.loads(self._ours.recv(1 << 20) or b'{"refused": "it ended"}')
        if "GPU" in message.get("refused", ""):
            raise RefusedError(message["refused"])
        assert "modules" in message, message

    @property
    def variables(self) -> dict[str, str]:
        """The variables that a command needs to find the server, together with the descriptors in `inherited`."""
        return {_SERVER: f"{self._ours.fileno()} {self._process.pid}"}

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that a command needs."""
        return (self._ours.fileno(),)

    def child(self) -> ChildProcess:
        """Return a process for a capture that this process starts itself: a fork of the server, if the file suits one."""
        return ChildProcess(server=self._client())  # type: ignore[arg-type]

    def _client(self) -> "_Client":
        return _Client(self._ours, _environment_of(self._process.pid))

    def run(self, words: Sequence[str], folder: Path, variables: Mapping[str, str], seconds: float) -> Completed | None:
        """Run `python FILE WORD...` in a fork; return None if torch would be imported in another way with the variables.

        Raises:
            subprocess.TimeoutExpired: it was ended after these seconds.
        """
        client = self._client()
        if not client.suits({name: value for name, value in variables.items() if name not in _LOGS}):
            return None
        with TemporaryFile() as out, TemporaryFile() as err:
            process = client.start("", words, variables, (out, err), (), folder)
            try:
                status = process.poll(seconds)
            finally:
                process.kill()
            texts = [_text(each) for each in (out, err)]
        if status is None:
            raise subprocess.TimeoutExpired(list(words), seconds, *texts)
        return subprocess.CompletedProcess(list(words), status, *texts)

    def python(self, file: str, folder: Path, variables: Mapping[str, str]) -> None:
        """Run a file in a fork, whatever comes of it."""
        assert self.run([file], folder, variables, 280) is not None

    def close(self) -> None:
        """End the server."""
        self._ours.close()
        self._process.wait(30)


def use() -> None:
    """Let this process, which runs a command, fork its captures from the server that it was given, if any."""
    variable = os.environ.pop(_SERVER, "")
    if not variable:
        return
    names = (
        "ctrace.inspector.runs.run_capture",
        "ctrace.inspector.features.fix.repairs.trial_runs",
        "ctrace.inspector.features.time.measuring",
        "ctrace.inspector.features.check.pool",
        "ctrace.inspector.runs.tasks",
        "ctrace.inspector.features.fix.reduction.reduction_trials",
    )
    modules = [cast(Any, import_module(name)) for name in names]
    capture, running, measuring, pool, tasks, trying = modules
    number, pid = map(int, variable.split())
    os.set_inheritable(number, False)
    server = _Client(socket.socket(fileno=number), _environment_of(pid))
    launch: Callable[..., Any] = capture.launch
    forked = ChildProcess.forked

    def launch_warm(request: CaptureRequest, *words: Any, child: ChildProcess | None = None, **options: Any) -> Any:
        child = child or ChildProcess(has_terminal=True)
        if child.server is None and not _why_new_process(request) and not _is_terminal():
            child.server = server.with_stdin() if child.has_terminal else server  # type: ignore[assignment]
        return launch(request, *words, child=child, **options)

    @contextmanager
    def forked_without_terminal(child: ChildProcess, *words: Any) -> Iterator[bool]:
        had_terminal = child.has_terminal
        child.has_terminal = had_terminal and not isinstance(child.server, _Client)
        with forked(child, *words) as has_started:
            yield has_started
        child.has_terminal = had_terminal

    def fork_server(environment: Mapping[str, str]) -> Any:
        return server if server.suits(environment) else ForkServer(environment)

    capture.launch = launch_warm
    ChildProcess.forked = forked_without_terminal  # type: ignore[method-assign,assignment]
    running.ForkServer = pool.ForkServer = fork_server
    measuring.ChildProcess = tasks.ChildProcess = _task_of(server)
    trying.started = _started_by(server, trying.started)


def _task_of(server: "_Client") -> type[ChildProcess]:
    """Return the class of processes that measure, or that try kernels."""

    class Task(ChildProcess):
        @contextmanager
        def running(
            self,
            command: Sequence[str],
            environment: Mapping[str, str],
            stdout: Stream = None,
            stderr: Stream = None,
            inherited: Sequence[int] = (),
        ) -> Iterator[bool]:
            variables = {**environment, **self.environment}
            module, words = _called(command)
            if module == _MEASURING:
                why = _why_new_process(TimingRequest.from_file(Path(words[0])).capture)
            else:
                why = _why_new_task(json.loads(Path(words[0]).read_bytes()))
            if why or not server.suits(variables):
                with super().running(command, environment, stdout, stderr, inherited) as started:
                    yield started
                return
            self._process = server.start(module, words, variables, (stdout, stderr), inherited)
            try:
                yield True
            finally:
                self._process.kill()

    return Task


def _started_by(server: "_Client", new_process: Callable[..., Process]) -> Callable[..., Process]:
    """Return the function that starts the process in which `ctrace repro` tries candidates."""

    def started(
        command: Sequence[str], environment: Mapping[str, str], stdout: Stream, stderr: Stream, *, stdin: int
    ) -> Process:
        if not server.suits(environment):
            return new_process(command, environment, stdout, stderr, stdin=stdin)
        return server.with_stdin(stdin).start(*_called(command), environment, (stdout, subprocess.DEVNULL), ())

    return started


class _Client:
    """The command's side, in place of a ForkServer."""

    why_not = ""

    def __init__(self, control: socket.socket, environment: dict[str, str], stdin: int | None = None) -> None:
        self._control = control
        self._environment = environment
        """The variables with which the server imported torch."""
        self._stdin = stdin

    def with_stdin(self, stdin: int = 0) -> "_Client":
        """Return a client whose forks read this descriptor as their standard input."""
        return _Client(self._control, self._environment, stdin)

    def close(self) -> None:
        """Leave the server to the next command."""

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether torch would be imported the same way with these variables."""
        names = {*environment, *self._environment}
        changed = (name for name in names if environment.get(name) != self._environment.get(name))
        added = {each for each in _ADDED if each not in self._environment}
        return all(name.startswith(_LATE) or name in added for name in changed)

    def fork(
        self,
        request: CaptureRequest,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        outputs: tuple[Stream, Stream],
        inherited: Sequence[int],
        _is_wanted: Callable[[], bool] = lambda: True,
        module: str = "",
    ) -> Process | None:
        """Fork a process for a capture; see `ForkServer.fork`."""
        if _why_new_process(request) or not self.suits(environment):
            return None
        return self.start(module or CAPTURE, arguments, environment, outputs, inherited)

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        outputs: tuple[Stream, Stream],
        inherited: Sequence[int],
        folder: Path | None = None,
    ) -> Forked:
        """Fork a process that calls the function `main` of a module, or that runs a program, if the module is ""."""
        changed = {name: value for name, value in environment.items() if self._environment.get(name) != value}
        removed = [name for name in self._environment if name not in environment]
        there = {"module": module, "folder": str(folder or Path.cwd()), "changed": changed, "removed": removed}
        ours, theirs = socket_pair()
        with theirs, Path(os.devnull).open("r+b") as nowhere:
            stdin = nowhere.fileno() if self._stdin is None else self._stdin
            numbers = [_number(each, at, nowhere.fileno()) for at, each in enumerate(outputs, 1)]
            request = {
                "arguments": [json.dumps(there), f"/dev/fd/{stdin}", *arguments],
                "inherited": [stdin, *inherited],
            }
            descriptors = [theirs.fileno(), *numbers, stdin, *inherited]
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        return Forked(ours)


def _called(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the module and the arguments of a command that `boot.python` made."""
    at = list(command).index(boot._BOOT.replace("{paths}", ""))
    return command[at + 2], command[at + 4 :]


def _number(stream: Stream, inherited: int, nowhere: int) -> int:
    """Return the descriptor of a program's stream; None is the command's own."""
    if stream is None:
        return inherited
    if stream == subprocess.DEVNULL:
        return nowhere
    return stream if isinstance(stream, int) else stream.fileno()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _is_terminal() -> bool:
    return any(each is None or each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr))


def _environment_of(pid: int) -> dict[str, str]:
    """Return the variables with which a process started."""
    text = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes())
    return dict(each.split("=", 1) for each in text.split("\0") if "=" in each)


def _why_new_process(request: CaptureRequest) -> str:
    return _why_not_read(request)


def _why_new_task(request: Mapping[str, Any]) -> str:
    """Return why a task needs a new process; one that names none of the user's files runs code that ctrace wrote."""
    path, module = request.get("path") or request.get("file"), request.get("module")
    return _why_not_read(SimpleNamespace(path=path, module=module)) if path or module else ""


def _why_not_read(request: Any) -> str:
    try:
        suitable._Reading(request).check()
    except suitable._DoubtError as doubt:
        return str(doubt)
    return ""
