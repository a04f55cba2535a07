"""Run candidates in forks of a process that has imported torch, and read what each showed."""

import json
import os
import select
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from ctrace.inspector.errors import SetupError
from ctrace.inspector.facts.session import Session, Target
from ctrace.inspector.files.scratch import delete, new_scratch_folder
from ctrace.inspector.files.writing import write_text
from ctrace.inspector.log.reader import read
from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.spawned import Process, started
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.session.build import build

NAME = "repro.py"
_NOT_PASSED_ON = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE")
_START_SECONDS = 180.0
_GRACE = 10.0


class Try(Struct, frozen=True):
    """One run of a candidate."""

    session: Session
    file: str
    output: str
    status: int
    timed_out: bool
    seconds: float


class Tries:
    """Runs candidates. Close it at the end."""

    def __init__(self, limit: float = 60.0) -> None:
        """Prepare to run candidates, each for at most `limit` seconds."""
        self.limit = limit
        self.count = 0
        self._folder = new_scratch_folder("repro")
        self._process: Process | None = None
        self._to = self._from = -1
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and delete what the tries wrote."""
        self._end()
        delete(self._folder)

    def run(self, text: str, *, eager: bool = False) -> Try:
        """Run a candidate; with `eager`, torch.compile does nothing.

        Raises:
            SetupError: the server cannot start.
        """
        self.count += 1
        folder = self._folder / str(self.count)
        folder.mkdir(parents=True)  # the program may have deleted all temporary files
        file, log, output = folder / NAME, folder / "log", folder / "output"
        write_text(file, text)
        request = {"file": str(file), "log": str(log), "output": str(output), "seconds": self.limit, "eager": eager}
        answer = self.ask(request)
        session = build(read(log), Target(str(file))) if log.exists() else Session()
        written = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        delete(folder)
        return Try(session, str(file), written, answer["status"], answer["timed_out"], answer["seconds"])

    def describe(self, request: CaptureRequest, wanted: Sequence[tuple[str, int]]) -> dict[str, Any]:
        """Run a target in eager, and return how it calls its model and the functions at `wanted` places."""
        folder = self._folder
        write_text(folder / "request", request.to_json())
        result = folder / "described"
        asked = {
            "describe": str(folder / "request"),
            "folder": str(Path.cwd()),
            "wanted": list(wanted),
            "result": str(result),
            "output": str(folder / "output"),
            "seconds": self.limit,
        }
        self.ask(asked)
        if not result.exists():
            return {"calls": [], "frames": [], "error": "the target ended early or took too long"}
        found: dict[str, Any] = json.loads(result.read_bytes())
        return found

    def preload(self, imports: Sequence[str]) -> None:
        """Run import statements once, for all candidates."""
        self.ask({"imports": list(imports), "seconds": _START_SECONDS})

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the server, and return its answer."""
        if self._process is None:
            self._start()
        try:
            answer = self._exchange(request, request["seconds"] + _GRACE)
        except BaseException:  # Ctrl-C: the next answer would be of this request
            self._end()
            raise
        if answer is None:
            self._end()
            return {"status": -9, "timed_out": True, "seconds": self.limit}
        return answer

    def _start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        theirs, self._to = os.pipe()
        self._from, mine = os.pipe()
        try:
            command = python("ctrace.inspector.features.fix.child.reducing.reduction_server")
            self._process = started(command, environment, mine, -3, stdin=theirs)
        except (OSError, RuntimeError) as error:
            raise SetupError(f"a process cannot be started: {error}", "end other processes, and try again") from None
        finally:
            os.close(theirs)
            os.close(mine)
        if self._exchange({}, _START_SECONDS) is None:
            self._end()
            raise SetupError("torch could not be imported to try candidates", "ctrace doctor checks this environment")

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        try:
            os.write(self._to, json.dumps(request).encode() + b"\n")
        except OSError:
            return None
        while b"\n" not in self._buffer:
            if not select.select([self._from], [], [], seconds)[0]:
                return None
            data = os.read(self._from, 65536)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
            for number in (self._to, self._from):
                os.close(number)
            self._buffer = b""
