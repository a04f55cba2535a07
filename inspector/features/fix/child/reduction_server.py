"""Run candidate programs, each in a fork of this process, which has imported torch and what the candidates import.

Requests and answers are lines of JSON. Each fork records what Dynamo did into a log; the command reads it.
"""

import builtins
import gc
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from ctrace.inspector.capture.calls.answering import place_of_failure
from ctrace.inspector.capture.core.environment import environment
from ctrace.inspector.capture.core.exception_text import NO_MESSAGE, message, traceback_text, type_name
from ctrace.inspector.capture.core.imports import watch_imports
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.structured import structured
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.dynamo.frames import frames
from ctrace.inspector.capture.dynamo.guard_stacks import GuardStacks
from ctrace.inspector.capture.dynamo.record_recompiles import recompiles
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.run_events import Ended

_MODULES = ("torch", "torch._dynamo", "torch._export.db.logging", "torch.fx.experimental.validator")
_POLL_SECONDS = 0.002
"""A candidate takes milliseconds, so a longer sleep would double its time."""
_NOT_RUN = 70
"""The exit code of a fork that ended before the candidate; Python's own are 0 to 2, and shells use those from 126."""
_TEACHERS = 4
"""Candidates whose imports are learned; later ones import what these did."""
_PIPE_BYTES = 60_000
"""Less than the 64 KiB of a pipe, so that writing does not wait for a reader."""
_RAISED = 1
"""The exit code of Python after an exception."""


def main(_loaded: frozenset[str]) -> None:
    """Serve requests from stdin until it closes; the first line asks for an answer once torch is imported."""
    # Answers go through a descriptor of their own: what an imported module prints must not get between them.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with open(os.devnull, "r+b", buffering=0) as null:  # noqa: PTH123
        os.dup2(null.fileno(), 1)
    sys.stdin.readline()
    for name in _MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    _import_tracing()
    _freeze()
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")


def _import_tracing() -> None:
    import torch
    import torch._dynamo

    # It imports torch's backends, which each candidate would otherwise do by itself.
    torch._dynamo.list_backends()


def _freeze() -> None:
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    if "imports" in request:
        for statement in request["imports"]:
            with suppress(BaseException):  # a candidate that needs it fails in the same way
                exec(statement, {"__name__": "imports"})
        _freeze()
        return {"status": 0, "timed_out": False, "seconds": time.monotonic() - began}
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _child(request, writing)
    os.close(writing)
    status, timed_out = _waited(pid, began + request["seconds"])
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what the candidate left behind
    seconds = time.monotonic() - began
    _learn(reading)
    return {"status": status, "timed_out": timed_out, "seconds": seconds}


def _learn(pipe: int) -> None:
    """Import what the first candidates imported, so that later ones need not."""
    with os.fdopen(pipe, "rb") as source:
        if _LEARNED.is_complete:
            return
        # A process that the candidate left could still hold the pipe open, and reading would not end.
        os.set_blocking(pipe, False)
        names = [each for each in (source.read() or b"").decode().split("\n") if each and each not in sys.modules]
    for name in names:
        with suppress(BaseException):  # only saves time: a candidate that needs the module imports it again, and fails
            importlib.import_module(name)
    _LEARNED.tries += 1
    _freeze()


class _Learned:
    """How many candidates have taught the server what to import."""

    tries = 0

    @property
    def is_complete(self) -> bool:
        """Whether more candidates would hardly teach more."""
        return self.tries >= _TEACHERS


_LEARNED = _Learned()


def _teach(pipe: int, before: frozenset[str]) -> None:
    """Name the modules that a candidate imported, as far as they fit into a pipe that nobody reads yet."""
    if not _LEARNED.is_complete:
        # A copy, since a thread of the candidate may import something now.
        text = "\n".join(each for each in list(sys.modules) if each not in before and each != "__main__")
        with suppress(OSError):
            os.set_blocking(pipe, False)
            os.write(pipe, text.encode()[:_PIPE_BYTES])
    os.close(pipe)


def _waited(pid: int, until: float) -> tuple[int, bool]:
    timed_out = False
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), timed_out
        if time.monotonic() > until:
            timed_out = True
            with suppress(ProcessLookupError):
                # Both, because the candidate may not have made its own group yet.
                os.killpg(pid, signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _child(request: dict[str, Any], pipe: int) -> None:
    status = _NOT_RUN
    before = frozenset(sys.modules)
    try:
        # A group of its own, so that all its processes can be ended at once.
        os.setsid()
        with _output(request["output"]):
            status = _work(request)
            # It waits for threads and their ends, as Python does before it exits; `os._exit` would not.
            threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        import traceback

        with suppress(Exception), open(request["output"], "a") as file:  # noqa: PTH123
            traceback.print_exc(file=file)
    finally:
        _teach(pipe, before)
        os._exit(status)


def _work(request: dict[str, Any]) -> int:
    if "describe" in request:
        from ctrace.inspector.features.fix.child.call_description import describe

        describe(request)
        return 0

    return run_candidate(request)


@contextmanager
def _output(path: str) -> Iterator[IO[bytes]]:
    """Send stdout and stderr of this process to a file."""
    with open(path, "ab", buffering=0) as file:  # noqa: PTH123
        for number in (1, 2):
            # Also the descriptors, which libraries in C and processes of the candidate write to.
            os.dup2(file.fileno(), number)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False, errors="replace")
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="replace")
        yield file
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()


def run_candidate(request: dict[str, Any]) -> int:
    """Run the program in `request["file"]`; return its exit code."""
    file = request["file"]
    with recording(Path(request["log"])) as recorder:
        if request.get("eager"):
            import torch

            torch.compiler.set_stance("force_eager")
        return _run_file(file, recorder)


@contextmanager
def recording(log: Path) -> Iterator[Recorder]:
    """Record what decides about findings, and nothing else: each hook costs time in every try."""
    recorder = Recorder(TraceLog(log))
    stacks = GuardStacks()
    with ExitStack() as active:
        when = active.enter_context(watch_imports())
        for source in (environment(()), structured, frames, recompiles(stacks)):
            active.enter_context(source(recorder, when))
        yield recorder
    recorder.add(Ended())
    recorder.log.close()


def _run_file(file: str, recorder: Recorder) -> int:
    os.chdir(Path(file).parent)
    sys.argv = [file]
    sys.path.insert(0, str(Path(file).parent))
    # A fork has the random state of the server, and all candidates would draw the same numbers.
    random.seed()
    main = ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=builtins, __loader__=SourceFileLoader("__main__", file))
    # What it defines can be pickled, and found by name, only if its module is this one.
    sys.modules["__main__"] = main
    try:
        exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as left:
        if isinstance(left.code, int):
            return left.code
        return int(left.code is not None)
    except BaseException as error:
        at, line = place_of_failure(error) or (None, None)
        recorder.add(Failure(FailurePhase.RUN, type_name(error), message(error) or NO_MESSAGE, at, line))
        print(traceback_text(error, error.__traceback__), end="", file=sys.stderr, flush=True)
        return _RAISED
    return 0
