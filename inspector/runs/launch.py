"""Start the capturing child process, follow its log, and determine how it ended."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from ctrace.inspector.errors import SetupError
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.files.disk_errors import reason, remedy
from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.forking import COMPILES_FIRST, WARMED
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.channel import Channel
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.store import SavedRun
from ctrace.inspector.runs.suitable import why_new_process
from ctrace.inspector.runs.virtual_world import rank_environment

if TYPE_CHECKING:
    from ctrace.inspector.facts.run_events import Event
    from ctrace.inspector.log.collected_log import CollectedLog

_GRACE_SECONDS = 5.0
"""How long a program may run after a Ctrl-C in its terminal."""
_SIGNALED_SECONDS = 1.0
"""How long a program may run after a SIGINT from elsewhere, which the program may not have received."""

_STAY = "A model file must not end the process: remove that call, or run the file as a program with ctrace run."
_NO_MEMORY = (
    "Under --fake, code such as a C++ extension reads memory that does not exist: make it a torch.library.custom_op, "
    "and register_fake its shapes."
)

NOT_PASSED_ON = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE")
"""Variables that a trial runs without; a server that forks trials needs the same environment."""

Output = int | IO[bytes] | None


class CaptureOutcome(Struct, frozen=True):
    """The result of a capture."""

    raw: "CollectedLog"
    seconds: float
    failure: Failure | None
    is_saved: bool = True
    """Whether the whole log is on disk."""


def _drop_torch_logs(environment: dict[str, str]) -> None:
    """Remove torch's log files from the environment of a trial: the user requested those for the run itself."""
    for name in NOT_PASSED_ON:
        environment.pop(name, None)


def _environment(request: CaptureRequest) -> dict[str, str]:
    """Return the environment of the child."""
    # With a target GPU, the program runs on the CPU, even if the machine has another GPU.
    environment = {**os.environ, **({} if request.gpu is None else {"CUDA_VISIBLE_DEVICES": ""})}
    if request.options.world is not None:
        environment |= rank_environment(request.options.rank or 0, request.options.world, environment)
    if request.options.caches is not None:
        from ctrace.inspector.runs.cache_folder import cache_environment

        for name, value in cache_environment(request.options.caches, request.caches).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
    if request.trial is not None:
        _drop_torch_logs(environment)
    return environment


def launch(
    request: CaptureRequest,
    run: SavedRun | None,
    *,
    timeout: float | None = None,
    stdout: Output = None,
    stderr: Output = None,
    observe: "Callable[[Event | None], None]" = lambda _event: None,
    child: ChildProcess | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> CaptureOutcome:
    """Run a request in a child process and read its log while it grows; without a `run`, nothing is saved.

    `observe` gets each event, and None while nothing happens. `meanwhile` runs while the child imports torch, which
    takes seconds. All descendants of the child are dead when this returns or raises.

    Without a `child`, the program shares our terminal: it can read the keyboard, and it gets a Ctrl-C and has a few
    seconds to end.

    Raises:
        SetupError: the system cannot start the program.
    """
    child = child or ChildProcess(has_terminal=True)
    child.began(run)
    began = time.monotonic()
    environment = _environment(request)
    watch = _Watch(child, None if timeout is None else began + timeout, observe)

    first: tuple[str, ...] = ()

    def fork(channel: Channel) -> AbstractContextManager[bool]:
        return child.forked(request, (*channel.arguments, *first), environment, (stdout, stderr), channel.inherited)

    def started(module: str, function: str, channel: Channel) -> AbstractContextManager[bool]:
        name, arguments = f"ctrace.inspector.capture.{module}", (*channel.arguments, *first)
        command = python(name, *arguments, function=function, interpreter=child.interpreter)
        return child.running(command, environment, stdout, stderr, channel.inherited)

    new_process = partial(started, "child_main", "main")
    starts: list[Callable[[Channel], AbstractContextManager[bool]]] = [new_process]
    if child.server is not None:
        starts = [fork, new_process]
    elif child.preloads and not why_new_process(request):
        starts = [partial(started, "fork_server", "alone"), new_process]

    def run_first_that_starts() -> "tuple[CollectedLog, bool]":
        for start in starts:
            with Channel(request, run) as channel, start(channel) as has_started:
                raw = None
                if has_started:
                    raw = _followed(channel, watch, observe, meanwhile)
                is_saved = channel.is_saved
            if raw is not None and (start is new_process or not child.wants_restart):
                return raw, is_saved
            _empty(run)
        raise AssertionError("a new process always starts")

    raw, is_saved = run_first_that_starts()
    # The first eager call filled caches of libraries, which a user's compiled call would not find.
    if watch.status == WARMED and request.kind == "model":
        _empty(run)
        first = (COMPILES_FIRST,)
        raw, is_saved = run_first_that_starts()
    seconds = time.monotonic() - began
    failure = raw.failure or _failure(watch.status, watch, raw, timeout, request)
    return CaptureOutcome(raw, seconds, failure, is_saved)


def _followed(
    channel: Channel,
    watch: "_Watch",
    observe: "Callable[[Event | None], None]",
    meanwhile: Callable[[], None],
) -> "CollectedLog":
    """Read the log while the child writes it, to its end."""
    with watch.catching_interrupts():
        channel.started()
        meanwhile()
        # Here, so that the child is importing torch while this process imports the reader.
        from ctrace.inspector.log.collected_log import CollectedLog
        from ctrace.inspector.log.reader import follow_bytes

        raw = CollectedLog()
        for item in follow_bytes(channel.read, watch.has_ended):
            observe(raw.add(item))
        return raw


def _empty(run: SavedRun | None) -> None:
    """Empty the log of a fork that requested a new process in its place.

    Raises:
        SetupError: the log cannot be emptied.
    """
    if run is None or not run.log.exists():
        return
    try:
        os.truncate(run.log, 0)
    except OSError as error:
        raise SetupError(f"{run.log} cannot be written: {reason(error)}", remedy(error)) from None


class _Watch:
    """Checks whether the child is still running, and kills it after its deadline."""

    def __init__(self, child: ChildProcess, deadline: float | None, observe: Callable[[None], None]) -> None:
        self._child = child
        self._deadline = deadline
        self._observe = observe
        self.status = 0
        self.timed_out = False
        self.interrupts = 0

    def has_ended(self) -> bool:
        self._observe(None)
        status = self._child.status()
        if status is None and not self._child.is_wanted:
            self._deadline, self.interrupts = 0.0, 1
        if status is None and self._deadline is not None and time.monotonic() > self._deadline:
            self.timed_out = self.timed_out or self.interrupts == 0
            status = self._child.kill()
        self.status = status or 0
        return status is not None

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Let the program, which also gets Ctrl-C, end within a few seconds; a second Ctrl-C kills it at once."""

        def interrupted(_number: int, _frame: object) -> None:
            self.interrupts += 1
            if is_in_foreground():
                grace = _GRACE_SECONDS
            else:
                grace = _SIGNALED_SECONDS
            self._deadline = time.monotonic() + (grace if self.interrupts == 1 else 0.0)

        # Python allows signal handlers in the main thread only.
        is_main = threading.current_thread() is threading.main_thread()
        # A command in the background of a script ignores Ctrl-C; keep it so.
        if not is_main or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
            yield
            return
        before = signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def is_in_foreground() -> bool:
    """Whether this process has a terminal and is in its foreground, so that Ctrl-C reaches it and its program."""
    if os.name != "posix":
        return True
    try:
        # Not from standard input, which may be a pipe while the terminal is still there.
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _failure(
    status: int, watch: _Watch, raw: "CollectedLog", timeout: float | None, request: CaptureRequest
) -> Failure | None:
    is_model = request.kind == "model"
    if watch.timed_out:
        return Failure(
            FailurePhase.TIMEOUT, "Timeout", f"the program was still running after {round(timeout or 0, 2):g} s"
        )
    if watch.interrupts:
        return Failure(FailurePhase.INTERRUPT, "KeyboardInterrupt", "interrupted")
    if status < 0:
        return _killed(-status, raw, request)
    # The child's first record has the versions: without it, it failed before it loaded anything of the user's.
    if not raw.environment:
        return Failure(
            FailurePhase.CRASH,
            "Exit",
            f"the capture ended before it loaded the program: exit code {status}",
            todo="See the error above; ctrace doctor checks this environment.",
        )
    # A program may end its process as it likes; a file that defines a model has no reason to.
    if is_model and not raw.ended:
        if raw.exited is not None:
            exit_text = raw.exited.how
        else:
            exit_text = f"exit code {status}, without cleaning up"
        return Failure(
            FailurePhase.CRASH, "Exit", f"the model file ended the process: {exit_text}", *_place(raw), todo=_STAY
        )
    if status:
        if raw.exited is not None:
            exit_text = f"{raw.exited.how}: exit code {status}"
        else:
            exit_text = f"exit code {status}"
        return Failure(
            FailurePhase.CRASH, "Exit", f"the program ended without cleaning up, with {exit_text}", *_place(raw)
        )
    return None


def _killed(number: int, raw: "CollectedLog", request: CaptureRequest) -> Failure:
    """Describe the signal that ended the program, with the line if the program sent it."""
    if raw.exited is None:
        todo = ""
        if request.options.fake and number == signal.SIGSEGV:
            todo = _NO_MEMORY
        return Failure(FailurePhase.CRASH, _signal_name(number), _crash_message(number), todo=todo)
    message = f"the program killed itself with {raw.exited.how}"
    return Failure(FailurePhase.CRASH, _signal_name(number), message, *_place(raw))


def _place(raw: "CollectedLog") -> tuple[str | None, int | None]:
    if raw.exited is None:
        return (None, None)
    return (raw.exited.file, raw.exited.line)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _crash_message(number: int) -> str:
    name = _signal_name(number)
    if number == signal.SIGKILL:
        return f"{name} killed the program; the system does that when it runs out of memory"
    return f"the program crashed with {name}"
