"""Import what every capture imports, once, and fork a process for each capture.

The server runs no op, starts no thread and initializes no GPU: a fork of it is like a new process that has imported the
same modules. It checks this with a first fork, and refuses to serve if the check fails. The modules are those that a
capture without code generation has imported by its end (compared for torch 2.13, CPU); a module that another version of
torch lacks is left out.
"""

import atexit
import gc
import importlib
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from os import _exit
from types import ModuleType
from typing import Any

from ctrace.inspector.capture import child_main as capture
from ctrace.inspector.capture.calls.start import ProcessStart
from ctrace.inspector.capture.core.files_read import QUESTIONS
from ctrace.inspector.processes.forking import fork_and_watch

_CAPTURE = "ctrace.inspector.capture.child_main"
_MODULES = (
    "torch._dynamo",
    "torch._dynamo.dce_extra_outputs",
    "torch._export.db.logging",
    "torch._export.passes._node_metadata_hook",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.compiler_bisector",
    "torch._inductor.sizevars",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental._attention",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "torch.nn.attention.flex_attention",
)
"""What Dynamo imports when it compiles the first function, besides its backends."""
# Ours: a request has paths and options. `recv_fds` needs a bound of both.
_MOST_BYTES = 1 << 16
_MOST_DESCRIPTORS = 16
"""Descriptors in one message; a request has a few streams and pipes."""
_NOT_FLUSHED = 120
"""Python's exit code if it cannot write its last output (Python/pylifecycle.c, 3.11)."""
_HIGH = 200
"""Lowest number of the server's own descriptors, because programs expect low numbers to be free."""


class _NotFound:
    """The last finder of the import system: records the top-level modules that no other finder finds."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, _path: object = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find nothing."""
        if "." not in name:
            self.names.add(name)
        return None


def main(loaded: frozenset[str]) -> None:
    """Serve captures through the socket whose descriptor is the first argument, until it closes.

    The second argument is the descriptor of a pipe that receives what this process prints. `loaded` are the modules
    that Python itself imported at startup.
    """
    control = _high(int(sys.argv[1]))
    printed = int(sys.argv[2])
    not_found = _imported()
    # What is garbage now would be copied by every fork.
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    # Before the first request: a fork with a broken GPU or a lost thread fails in ways that a user cannot read.
    if why := _unfit():
        control.sendall(json.dumps({"refused": why}).encode())
        os._exit(0)
    sys.stdout.flush()
    sys.stderr.flush()
    printed_text = _read(printed)
    names = _looked_for(loaded, not_found)
    control.sendall(json.dumps({"modules": names}).encode())
    task, arguments = _serve(control)
    os.write(2, printed_text)  # a new process would have printed this while it imported torch
    # Before anything of the program runs, and after `_serve`, whose forks have the same state.
    _become_new(arguments)
    shared = _Shared()
    try:
        if task:
            sys.orig_argv[sys.orig_argv.index(_CAPTURE)] = task
            importlib.import_module(task).main(loaded, ProcessStart(names))
        else:
            capture.main(loaded, ProcessStart(names))
    except SystemExit as left:
        # Of any other code, Python prints the text or takes the lowest byte, and does so itself.
        if isinstance(left.code, int) and left.code in range(256) and not shared.has_new_libraries():
            _exit(shared.end(left.code))
        raise


def alone(loaded: frozenset[str]) -> None:
    """Run one capture in this process, which imports torch first: like a fork, without a server.

    What torch looks for while it is imported is then no question of the program, and costs no time to record.
    """
    not_found = _imported()
    at = sys.orig_argv.index(__name__)
    sys.orig_argv[at : at + 2] = [_CAPTURE, "main"]
    capture.main(loaded, ProcessStart(_looked_for(loaded, not_found)))


def _looked_for(loaded: frozenset[str], not_found: set[str]) -> list[str]:
    """Return the top-level modules that importing torch looked for."""
    return sorted({name.partition(".")[0] for name in sys.modules} - loaded | not_found)


class _Shared:
    """Modules and libraries that a fork shares with the server, and that need no teardown when the fork ends.

    Tearing torch's modules down copies their pages, and takes as long as tracing a small model.
    """

    def __init__(self) -> None:
        self._modules = frozenset(sys.modules)
        self._libraries = _libraries()

    def has_new_libraries(self) -> bool:
        """Whether the program has loaded native code or opened a device, which may have work to do at the end."""
        return not _libraries() <= self._libraries

    def end(self, status: int) -> int:
        """End the program as Python does, in its order, but tear down only what the program added; return the
        status."""
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        flushed = [_flushed(each) for each in (sys.stdout, sys.stderr)]
        for name in reversed([name for name in sys.modules if name not in self._modules]):
            module = sys.modules[name]
            # As Python does (`_PyModule_ClearDict`, Objects/moduleobject.c): destructors run, which still need the
            # builtins.
            variables = getattr(module, "__dict__", {})
            for each in [each for each in variables if each != "__builtins__"]:
                variables[each] = None
        # Flushed again: a destructor of the program may have printed.
        if all([*flushed, _flushed(sys.stdout), _flushed(sys.stderr)]):
            return status
        return _NOT_FLUSHED


def _flushed(stream: Any) -> bool:
    """Flush a stream, which the program may have replaced; return whether that worked."""
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except Exception:
        return False
    return True


def _libraries() -> set[str]:
    """Return the files that this process has mapped."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        paths = (line.split(maxsplit=5)[5:] for line in file)
        return {path[0] for path in paths if path and path[0].startswith("/")}


def _high(number: int) -> socket.socket:
    """Move a descriptor above the numbers that programs use."""
    import fcntl

    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(number)
    return socket.socket(fileno=moved)


def _imported() -> set[str]:
    """Import torch; return the top-level modules that it looked for but did not find."""
    QUESTIONS.begin()
    finder = _NotFound()
    sys.meta_path.append(finder)
    try:
        with QUESTIONS.hearing_names():
            torch = importlib.import_module("torch")
            for name in _MODULES:
                with suppress(ModuleNotFoundError):
                    importlib.import_module(name)
            torch._dynamo.list_backends()  # imports every module of torch._dynamo.backends
    finally:
        sys.meta_path.remove(finder)
    return finder.names


def _unfit() -> str:
    """Return why a fork of this process would differ from a new process, or "" if it would not.

    Libraries that handle forks end their threads before one (OpenBLAS does), so count threads after a fork.
    """
    if not (pid := os.fork()):
        os._exit(_is_bad_fork())
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        return "importing torch initialized a GPU"
    # Native threads, too, which `threading` does not know.
    number = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    if number > 1 or threading.active_count() > 1:
        return f"importing torch started {number - 1} threads"
    return ""


def _is_bad_fork() -> bool:
    """Whether torch refuses to use a GPU in this fork."""
    import torch

    names = ("_cuda_isInBadFork", "_xpu_isInBadFork", "_accelerator_isInBadFork")
    return any(getattr(torch._C, name, lambda: False)() for name in names)


def _read(pipe: int) -> bytes:
    """Return what this process has printed so far, and close the pipe."""
    os.set_blocking(pipe, False)
    with open(pipe, "rb", buffering=0) as source:
        return source.read() or b""


def _serve(control: socket.socket) -> tuple[str, list[str]]:
    """Fork for each request; return the module of a task, if it is one, and the arguments in the fork, and never in the
    server.
    """
    while True:
        data, descriptors, _flags, _address = socket.recv_fds(control, _MOST_BYTES, _MOST_DESCRIPTORS)
        _reap()
        # The command has closed its end, and so needs no further captures.
        if not data:
            os._exit(0)
        request = json.loads(data)
        line, stdout, stderr, *inherited = descriptors
        try:
            is_program = fork_and_watch(line, stdout, stderr, [control], observes=request.get("observes", True))
        except OSError as error:
            os.write(line, f"failed {error.errno}\n".encode())
            is_program = False
        if is_program:
            return request.get("module", ""), _renumbered(request["arguments"], request["inherited"], inherited)
        for number in descriptors:
            os.close(number)


def _reap() -> None:
    """Reap the watcher processes that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _renumbered(arguments: Sequence[str], before: Sequence[int], now: Sequence[int]) -> list[str]:
    """Replace descriptor numbers in the arguments with the numbers in this process."""
    changed = {
        form.format(old): form.format(new)
        for form in ("{}", "/dev/fd/{}")
        for old, new in zip(before, now, strict=True)
    }
    return [changed.get(each, each) for each in arguments]


def _become_new(arguments: list[str]) -> None:
    """Make this fork look like a new process: set its arguments and reseed its random generators.

    Python itself reseeds `random` after a fork. torch seeds its CPU generator at random when it is imported.
    """
    import torch

    torch.default_generator.seed()
    at = sys.orig_argv.index(__name__)
    sys.orig_argv[at:] = [_CAPTURE, "main", *arguments]
    sys.argv[1:] = arguments
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
