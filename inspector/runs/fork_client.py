"""Start the process that forks captures (the server), and send it requests.

The server ends with the command, like every capture, and so do all of its forks. If it cannot serve, captures run in
new processes. Its output is then dropped, because each new process prints the same.
"""

import json
import os
import select
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto

from ctrace.inspector.processes.boot import Interpreter, python
from ctrace.inspector.processes.spawned import Forked, Process, Stream, socket_pair, started
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.suitable import why_new_process

# Chosen: short beside a capture, which takes seconds.
_PAUSE = 0.02
# Ours: an answer names modules and numbers; `recv` needs a bound.
_MOST_BYTES = 1 << 18
# The most that Linux gives a pipe of a user without asking root (/proc/sys/fs/pipe-max-size).
_PIPE_BYTES = 1 << 20


class _State(Enum):
    NEW = auto()
    STARTING = auto()
    READY = auto()
    ENDED = auto()
    """The server cannot serve, or no longer serves."""


class ForkServer:
    """Starts the server for the first capture, and forks captures from it; several threads may use it. Close it at the
    end.
    """

    def __init__(
        self, environment: Mapping[str, str], interpreter: Interpreter | None = None, *, lowers: bool = False
    ) -> None:
        """Prepare to serve captures that run in this environment; start nothing yet.

        Args:
            environment: The variables of the server and its forks.
            interpreter: Their Python; None: the one that runs ctrace.
            lowers: Whether forks may run Inductor; see `why_new_process`.
        """
        self.why_not = ""
        """Why the server does not serve; empty while it can."""
        self._environment = dict(environment)
        self._interpreter = interpreter
        self._lowers = lowers
        self._lock = threading.Lock()
        self._state = _State.NEW
        self._process: Process | None = None
        self._control: socket.socket | None = None

    def close(self) -> None:
        """End the server with all of its forks."""
        with self._lock:
            self._end("it was closed")

    def fork(
        self,
        request: CaptureRequest,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        outputs: tuple[Stream, Stream],
        inherited: Sequence[int],
        is_wanted: Callable[[], bool] = lambda: True,
        module: str = "",
    ) -> Process | None:
        """Fork a process for a capture, with the arguments of `capture/child_main.py`; return None if the capture needs
        a new process.

        With a `module`, the fork runs the `main` of that, a task that loads what the request names.

        Wait while the server imports torch and `is_wanted()` is true.
        """
        # A fork has the variables with which the server imported torch, and cannot change what torch read then.
        if why_new_process(request, lowers=self._lowers) or dict(environment) != self._environment:
            return None
        numbers = [_number(each) for each in outputs]
        if not all(map(_is_plain, numbers)):
            return None
        while (state := self._current_state()) is _State.STARTING and is_wanted():
            time.sleep(_PAUSE)
        if state is not _State.READY:
            return None
        return self._request_fork(module, arguments, numbers, inherited, observes=request.records_files)

    def _start(self) -> None:
        if sys.platform != "linux":
            self._end(f"{sys.platform} cannot fork such a process")
            return
        try:
            self._start_process()
        except (OSError, RuntimeError) as error:  # out of processes or descriptors; a single capture may still start
            self._end(str(error))

    def _start_process(self) -> None:
        # Each message arrives whole, so neither side has to look for its end.
        ours, theirs = socket_pair(socket.SOCK_SEQPACKET)
        reading, writing = _pipe()
        try:
            self._process = started(
                python(
                    "ctrace.inspector.capture.fork_server",
                    str(theirs.fileno()),
                    str(reading),
                    interpreter=self._interpreter,
                ),
                self._environment,
                writing,
                writing,
                inherited=(theirs.fileno(), reading),
            )
        except BaseException:
            ours.close()
            raise
        # The child has its own copies; an open end here would hide that the child has closed its own.
        finally:
            theirs.close()
            os.close(reading)
            os.close(writing)
        self._control, self._state = ours, _State.STARTING

    def _current_state(self) -> _State:
        """Read the server's message, if there is one, and return the current state."""
        with self._lock:
            if self._state is _State.NEW:
                self._start()
            if self._state is _State.STARTING and self._control is not None:
                if select.select([self._control], [], [], 0.0)[0]:
                    self._receive(self._control)
                elif self._process is not None and self._process.poll() is not None:
                    self._end("it could not import torch")
            return self._state

    def _receive(self, control: socket.socket) -> None:
        try:
            message = json.loads(control.recv(_MOST_BYTES) or b"{}")
        except (OSError, ValueError):
            message = {}
        if "modules" in message:
            self._state = _State.READY
        else:
            self._end(str(message.get("refused", "it could not import torch")))

    def _request_fork(
        self, module: str, arguments: Sequence[str], outputs: Sequence[int], inherited: Sequence[int], *, observes: bool
    ) -> Process | None:
        """Send a request for a fork; return None if the server has ended."""
        ours, theirs = socket_pair()
        text = json.dumps(
            {"module": module, "arguments": list(arguments), "inherited": list(inherited), "observes": observes}
        )
        try:
            with self._lock:
                if self._control is None:
                    raise ConnectionResetError
                socket.send_fds(self._control, [text.encode()], [theirs.fileno(), *outputs, *inherited])
        except OSError:
            ours.close()
            with self._lock:
                self._end("it has ended")
            return None
        finally:
            theirs.close()
        return Forked(ours)

    def _end(self, why: str) -> None:
        self._state, self.why_not = _State.ENDED, self.why_not or why
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process = None


def _pipe() -> tuple[int, int]:
    """Create a pipe for the server's output; nobody reads it in time, so a write to a full pipe must not block."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # above the user's limit
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


def _number(stream: Stream) -> int:
    # DEVNULL and STDOUT are negative numbers, and no descriptors.
    if stream is None or stream == subprocess.DEVNULL or isinstance(stream, int):
        if stream is None or stream < 0:
            return -1
        return stream
    return stream.fileno()


def _is_plain(number: int) -> bool:
    """Whether a stream is a pipe, as the server's streams are: Python sets up its streams by kind when it starts."""
    return number >= 0 and stat.S_ISFIFO(os.fstat(number).st_mode)
