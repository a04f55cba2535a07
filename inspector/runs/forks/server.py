"""The process that forks captures, seen from the command.

It ends with the command, like every capture, and with it all of its forks. Where it cannot serve, captures are new
processes; what it printed then is of no interest, because each of them prints it again.
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

from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.spawned import Forked, Process, Stream, socket_pair, started
from ctrace.inspector.runs.forks.suitable import why_new_process
from ctrace.inspector.runs.request import CaptureRequest

_PAUSE = 0.02
_MOST_BYTES = 1 << 18
_PIPE_BYTES = 1 << 20


class _State(Enum):
    NEW = auto()
    STARTING = auto()
    READY = auto()
    ENDED = auto()
    """It cannot serve, or does no longer."""


class ForkServer:
    """Forks captures, from a process that it starts for the first one; several threads may ask. Close it at the end."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Serve captures that run in this environment; start nothing yet."""
        self.why_not = ""
        """Why it does not serve; empty while it may."""
        self._environment = dict(environment)
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
    ) -> Process | None:
        """Fork a process for a capture, with the arguments of `capture/main.py`; None if it needs a new process.

        Wait while the server imports torch and `is_wanted()`.
        """
        if why_new_process(request) or dict(environment) != self._environment:
            return None
        numbers = [_number(each) for each in outputs]
        if not all(map(_is_plain, numbers)):
            return None
        while (state := self._looked()) is _State.STARTING and is_wanted():
            time.sleep(_PAUSE)
        return self._asked(arguments, numbers, inherited) if state is _State.READY else None

    def _start(self) -> None:
        if sys.platform != "linux":
            self._end(f"{sys.platform} cannot fork such a process")
            return
        try:
            self._start_process()
        except (OSError, RuntimeError) as error:  # out of processes or descriptors: maybe not for a single capture
            self._end(str(error))

    def _start_process(self) -> None:
        ours, theirs = socket_pair(socket.SOCK_SEQPACKET)
        reading, writing = _pipe()
        try:
            self._process = started(
                python("ctrace.inspector.capture.fork_server", str(theirs.fileno()), str(reading)),
                self._environment,
                writing,
                writing,
                inherited=(theirs.fileno(), reading),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(reading)
            os.close(writing)
        self._control, self._state = ours, _State.STARTING

    def _looked(self) -> _State:
        """Return the state, after the server's message if there is one."""
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

    def _asked(self, arguments: Sequence[str], outputs: Sequence[int], inherited: Sequence[int]) -> Process | None:
        """Send a request for a fork; None if the server has ended."""
        ours, theirs = socket_pair()
        text = json.dumps({"arguments": list(arguments), "inherited": list(inherited)})
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
    """Create a pipe for what the server prints; nobody reads it meanwhile, so writing to a full one must not block."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # above the user's limit
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


def _number(stream: Stream) -> int:
    if stream is None or stream == subprocess.DEVNULL or isinstance(stream, int):
        return -1 if stream is None or stream < 0 else stream
    return stream.fileno()


def _is_plain(number: int) -> bool:
    """Whether a stream is a pipe, as those of the server; Python prepares its streams for their kind as it starts."""
    return number >= 0 and stat.S_ISFIFO(os.fstat(number).st_mode)
