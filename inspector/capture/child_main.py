"""The child process of a capture: run the requested model or program, and record how it ends."""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import wraps
from os import _exit as end_process
from os import getpid
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.answering import Place, place_of_failure
from ctrace.inspector.capture.calls.applied_trial import edited_sources, prepare, settings_of, tried_ways
from ctrace.inspector.capture.calls.call_parts import WholeModel, described
from ctrace.inspector.capture.calls.calling import CallStoppedError, end_if_forked, in_this_process
from ctrace.inspector.capture.calls.model_files import Loaded, load
from ctrace.inspector.capture.calls.program_run import run_program, wants_gpu
from ctrace.inspector.capture.calls.start import NEW, ProcessStart
from ctrace.inspector.capture.calls.ways import Call, plan
from ctrace.inspector.capture.capture_hooks import capturing
from ctrace.inspector.capture.comparing.eager import Around, EagerError
from ctrace.inspector.capture.core.callers import without_our_frames
from ctrace.inspector.capture.core.child_doors import child_door, has_child_door
from ctrace.inspector.capture.core.exception_text import (
    NO_MESSAGE,
    kind_and_message,
    message,
    text_of,
    traceback_text,
    type_name,
)
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.eager_backend import every_backend_traces
from ctrace.inspector.capture.dynamo.op_counts import OpCounter
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.capture.scenario_runs import Order, run_scenarios
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.run_events import ProgramExited
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.processes.forking import COMPILES_FIRST
from ctrace.inspector.processes.system_calls import begin
from ctrace.inspector.processes.watcher import OBSERVED
from ctrace.inspector.runs.capture_request import CaptureRequest

_TODO = {
    "load": "First make it work in plain Python: the import, the model and its inputs.",
    "eager": "First make this call work without torch.compile.",
}
_OF_RANKS = "env:// rendezvous"
"""What torch.distributed says without the variables that torchrun sets (distributed/rendezvous.py, 2.11 to 2.13)."""
_AS_RANK = (
    "Say how many ranks the job has: with --world 8, this process is one of eight, and the others need not exist."
)
_AS_GPU = "There is no GPU here. With --target h100, the code runs on the CPU, and kernels are those of that GPU."

_THREADS_SECONDS = 3.0
"""Seconds for threads to end after the calls of a model file: a choice, short beside a capture."""
_OURS = f"{PACKAGES}{os.sep}"
_HARMLESS = {
    getattr(signal, name, 0)
    for name in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU")
}
"""Signals whose default action does not end a process; 0 is no signal."""


def main(loaded: frozenset[str], start: ProcessStart = NEW) -> None:
    """Carry out the request in the file named by the first argument, and exit as the program exits.

    The optional second argument is the descriptor of a pipe for log records that the disk does not accept; the last one
    may be the socket of a watcher that observes this process. `loaded` are the modules that Python itself imported at
    startup; `start` says how this process came to be.
    """
    # From the end of the arguments to their front, as they were added; the program must see none of them.
    watcher = _watcher()
    preloaded = Preloaded(loaded)
    compiles_first = _taken(COMPILES_FIRST)
    request = CaptureRequest.from_file(Path(sys.argv[1]))
    # After our own request is read: what ctrace opens is no dependency of the program.
    if watcher is not None:
        begin(watcher)
    spare = None
    if len(sys.argv) > 2:
        spare = int(sys.argv[2])
    ops = None
    if request.kind == "model":
        ops = OpCounter()
    options = request.options
    log = None
    if request.log:
        log = Path(request.log)
    with (
        capturing(
            log,
            spare=spare,
            build=options.build,
            time_kernels=options.time_kernels,
            fast=options.fast,
            cost=options.guard_cost,
            parts=options.guard_parts,
            ops=ops,
            owned=request.owned,
            gpu=request.gpu,
            cores=request.cores,
            files=request.records_files,
            caches=options.caches,
            seed=request.seed,
            is_whole=True,
            virtual=options if options.world is not None else None,
        ) as recorder,
        exits(recorder),
    ):
        status = _run(request, recorder, ops, preloaded, start, compiles_first=compiles_first)
    with suppress(Exception):  # the program may have closed or replaced it
        sys.stdout.flush()
    if request.kind == "model":
        # A program's threads are part of it, but those of a model file serve nothing once its calls are over.
        _end_despite_threads(status)
    sys.exit(status)


def _end_despite_threads(status: Any) -> None:
    """End this process even if threads of the model's file or of a package still run: its calls are done.

    Python waits for such threads without a limit before it ends (threading.py:_shutdown, 3.11). Threads of a pool end
    then without help, so all get some time.
    """

    def end() -> None:
        time.sleep(_THREADS_SECONDS)
        if any(not each.daemon and each is not threading.main_thread() for each in threading.enumerate()):
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # the program may have closed or replaced it
                    stream.flush()
            # As Python reads what `sys.exit` gets: None is 0, any object that is no number is 1.
            end_process(status if isinstance(status, int) else int(status is not None))

    if threading.active_count() > 1:
        threading.Thread(target=end, daemon=True).start()


def _watcher() -> int | None:
    """Take the watcher's socket from the arguments, which the program can read."""
    if not sys.argv[-1].startswith(OBSERVED):
        return None
    sys.orig_argv.pop()
    return int(sys.argv.pop().removeprefix(OBSERVED))


def _taken(argument: str) -> bool:
    """Remove an argument of ours, which the program could read; return whether it was there."""
    if sys.argv[-1] != argument:
        return False
    sys.argv.pop()
    sys.orig_argv.remove(argument)
    return True


def _run(
    request: CaptureRequest,
    recorder: Recorder,
    ops: OpCounter | None,
    preloaded: Preloaded,
    start: ProcessStart,
    *,
    compiles_first: bool,
) -> Any:
    if request.config or request.sources or request.called:
        child_door("upgrade").prepare(request)
    if ops is None:
        status = _status(lambda: _run_program(request, preloaded, recorder), _Reporting(recorder, "run", request))
        # Exit functions may compile, too, so they run while the hooks are still in place.
        status = _status(_end_as_python_does, _Reporting(recorder, "run", request)) or status
        # After the exit functions: nothing of the program can notice a measurement now.
        _measure_postponed(recorder, failed=bool(status))
        return status
    try:
        if has_child_door("fake"):
            fake = child_door("fake").FakeModel(request.options, recorder)
        else:
            fake = WholeModel()
        # A fork of the model file must never go on with the calls of its parent (`calls/calling.py`).
        with in_this_process(recorder), fake.active():
            _run_model(request, recorder, ops, preloaded, start, compiles_first=compiles_first, fake=fake)
    except _Reported as reported:
        return reported.status
    return 0


def _run_program(request: CaptureRequest, preloaded: Preloaded, recorder: Recorder) -> None:
    trial = request.trial or Trial()
    with ExitStack() as around:
        around.enter_context(edited_sources(trial.edits, trial.sources))
        if request.options.fast:
            around.enter_context(every_backend_traces(request.options, recorder))
        if request.options.world is not None:
            around.enter_context(child_door("cluster").refusing_what_lacks())
        if request.proof is not None:
            child_door("fix").observe_program(lambda: run_program(request, preloaded), request.proof)
        else:
            run_program(request, preloaded)


def _status(work: Callable[[], None], reporting: "_Reporting") -> Any:
    try:
        with reporting:
            work()
    except _Reported as reported:
        return reported.status
    return 0


def _end_as_python_does() -> None:
    """Wait for threads and call exit functions, in Python's order, while compilations are still recorded."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()


def _run_model(
    request: CaptureRequest,
    recorder: Recorder,
    ops: OpCounter,
    preloaded: Preloaded,
    start: ProcessStart,
    *,
    compiles_first: bool,
    fake: WholeModel,
) -> None:
    loading: Around = nullcontext
    eagerly: Around = nullcontext
    if request.gpu is not None:
        pretence = child_door("gpus").pretence(recorder, request.gpu)
        loading, eagerly = pretence.loading, pretence.running
    if request.options.world is None:
        refusing = nullcontext
    else:
        refusing = child_door("cluster").refusing_what_lacks
    trial = request.trial or Trial()
    reporting = _Reporting(recorder, "load", request)
    # `start.loading` is outermost: if a new process would load the model differently, not even a failure may be
    # reported.
    edited = edited_sources(trial.edits, trial.sources)
    with start.loading(request), reporting, refusing(), fake.stopping(), loading(), edited:
        if request.proof is not None:
            seed()  # models draw their weights as they are made
        loaded = load(request, preloaded, lambda ways: recorder.add(plan(ways)), fake.made)
        end_if_forked()
        if request.trial is None:
            with recorder.watching("the modules of the target"):  # runs code of the user's classes of parameters
                recorder.add(described(loaded.model))
                recorder.add(fake.size(loaded.model))
        prepare(loaded.model, trial)
        ways = tried_ways(loaded.model, loaded.scenarios, trial)
    scenarios = {name: replace(way, make=_within(loading, way.make, fake)) for name, way in ways.items()}
    reporting = _Reporting(recorder, "run", request)
    with reporting, settings_of(trial):
        if request.proof is not None:
            child_door("fix").observe_model(Loaded(loaded.model, scenarios), request.proof, train=request.options.train)
            return
        run_scenarios(
            Loaded(loaded.model, scenarios, trial.parts, without_values=fake.values()),
            request.options,
            recorder,
            ops,
            eagerly,
            failed=reporting.note,
            cycle=(request.calls, request.seconds),
            order=Order.COMPILED_FIRST if compiles_first else Order.EAGER_FIRST_IF_EQUAL,
        )
        _measure_postponed(recorder, failed=reporting.call_failed)  # while the model is still there
    if reporting.call_failed:
        raise _Reported(1)


def _measure_postponed(recorder: Recorder, *, failed: bool) -> None:
    """Measure what would have disturbed the program; after a failure, the GPU may be unable to run anything."""
    if failed:
        recorder.postponed.refuse("the program failed")
    else:
        recorder.postponed.measure()


def _within(around: Around, make: Callable[[], Call], fake: WholeModel) -> Callable[[], Call]:
    def within() -> Call:
        with around():
            made = fake.arguments(make())
            end_if_forked()
            return made

    return within


_STAY = "A model file may not end the process: leave that call out, or watch the file as a program with ctrace run."


class _Reported(Exception):  # noqa: N818 - not an error but the end of a run
    """The program ended early; the log has the reason."""

    def __init__(self, status: Any) -> None:
        super().__init__()
        self.status = status


class _Reporting:
    """Records how the user's code failed, shows its traceback without ctrace's frames, and ends the capture.

    A model file must not end the process.
    """

    def __init__(self, recorder: Recorder, phase: str, request: CaptureRequest) -> None:
        self._recorder = recorder
        self._phase = phase
        self._is_model = request.kind == "model"
        self._has_target = request.gpu is not None
        self._process = getpid()
        self.call_failed = False
        """Whether a call raised an exception and the run continued."""

    def note(self, error: Exception) -> None:
        """Report the exception of one of several calls; only the first one counts as the run's failure."""
        if not self.call_failed:
            if isinstance(error, EagerError):
                cause = error.__cause__ or error
            else:
                cause = error
            self._note("eager" if isinstance(error, EagerError) else self._phase, cause)
        self.call_failed = True

    def __enter__(self) -> None:
        """Start watching."""

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Report the exception, if any.

        Raises:
            _Reported: there was one.
        """
        end_if_forked()
        match error:
            case None:
                return
            case SystemExit():
                self._left(error)
            case TargetError():
                self._record("target", "TargetError", error.what, todo=error.todo)
                raise _Reported(2) from None
            case CallStoppedError() if self._phase == "load":
                what = f"{error}, while the model is made; under --fake, it has no value"
                self._record("target", "TargetError", what, todo=error.todo)
                raise _Reported(2) from None
            case EagerError():
                self._fail("eager", error.__cause__ or error)
            case KeyboardInterrupt():
                self._fail("interrupt", error)
            case _:
                self._fail(self._phase, error)

    def _left(self, error: SystemExit) -> None:
        """Report an exit; a program may exit with 0, a model file must not exit at all."""
        code = error.code
        is_number = isinstance(code, int)
        if code is None or is_number:
            how = f"exit code {int(code or 0)}"
        else:
            how = text_of(code)
        if self._is_model:
            at = place_of_failure(error)
            what = f"the model file ended the process with sys.exit: {how}"
            self._record(self._phase, "SystemExit", what, at, _STAY)
        elif code is not None and not (is_number and code == 0):
            self._record(self._phase, "SystemExit", how)
        raise _Reported(code) from None

    def _fail(self, phase: str, error: BaseException) -> None:
        # An interrupt is recorded even so: it is why later calls are missing.
        if not self.call_failed or phase == "interrupt":
            self._note(phase, error)
        raise _Reported(1) from None

    def _note(self, phase: str, error: BaseException) -> None:
        what = message(error) or NO_MESSAGE
        self._record(phase, type_name(error), what, place_of_failure(error), self._todo(phase, what))
        _show(error)

    def _todo(self, phase: str, what: str) -> str:
        if _OF_RANKS in what:
            return _AS_RANK
        if wants_gpu(what) and not self._has_target:
            return _AS_GPU
        return _TODO.get(phase, "")

    def _record(self, phase: str, kind: str, what: str, at: Place | None = None, todo: str = "") -> None:
        """Record a failure; one in a fork is only a problem, because the program's exit code does not show it."""
        if getpid() != self._process:
            self._recorder.problem(f"a process that the program forked ended with {kind}: {what}")
            return
        file, line = at or (None, None)
        self._recorder.add(Failure(FailurePhase(phase), kind, what, file, line, todo))


def _trimmed(error: BaseException) -> TracebackType | None:
    return without_our_frames(error.__traceback__)


def _show(error: BaseException) -> None:
    """Print the traceback as Python would, cutting pieces that are too long."""
    trimmed = _trimmed(error)
    try:
        # The program's own hook, such as that of rich, shows the traceback as it would without ctrace.
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(error), error.with_traceback(trimmed), trimmed)
        else:
            print(traceback_text(error, trimmed), end="", file=sys.stderr, flush=True)
    except BaseException as broken:  # the program's hook failed, or it closed the stream; the log has the failure
        with suppress(Exception):
            os.write(
                2, f"{kind_and_message(error)} ({kind_and_message(broken)} while its traceback was shown)\n".encode()
            )


@contextmanager
def exits(recorder: Recorder) -> Iterator[None]:
    """Record `exited` when the capturing process ends itself. Exits of its forks are not recorded.

    The user's code ends its process by `os._exit`, `exec` or a signal to itself. ctrace's code cannot run after these
    calls, so they are patched while the program runs. An exit from C code leaves no record; `launch.py` then knows only
    the exit status.
    """
    # `getpid` is imported by name, since the program may replace `os.getpid`.
    process = getpid()

    def recording(name: str, original: Callable[..., Any], ends: Callable[..., bool]) -> Callable[..., Any]:
        @wraps(original)
        def with_record(*args: Any, **kwargs: Any) -> Any:
            if getpid() == process:
                with recorder.watching("how the program ended itself"):
                    if ends(*args, **kwargs):
                        _note(recorder, name, args, sys._getframe(1))
            return original(*args, **kwargs)

        return with_record

    with ExitStack() as patches:
        for owner, name, ends in _endings(process):
            if hasattr(owner, name):
                with_record = recording(f"{owner.__name__}.{name}", getattr(owner, name), ends)
                patches.enter_context(patched(owner, name, with_record))
        yield


def _endings(process: int) -> Iterator[tuple[Any, str, Callable[..., bool]]]:
    """Yield the functions that can end this process, each with a predicate: whether a call ends it."""
    # All other functions of the exec family call one of these two (os.py).
    for name in ("_exit", "execv", "execve", "abort"):
        yield os, name, lambda *_args, **_kwargs: True
    # 0 and the negative number of a group reach the process that sends the signal, too.
    yield os, "kill", lambda pid, number: pid in (process, 0, -os.getpgrp()) and _is_deadly(number)
    yield os, "killpg", lambda group, number: group in (0, os.getpgrp()) and _is_deadly(number)
    yield signal, "raise_signal", _is_deadly
    yield signal, "pthread_kill", lambda _thread, number: _is_deadly(number)


def _is_deadly(number: int) -> bool:
    """Whether a signal ends the process because the program neither handles nor ignores it."""
    return number not in _HARMLESS and signal.getsignal(number) in (signal.SIG_DFL, None)


def _note(recorder: Recorder, name: str, args: tuple[Any, ...], frame: Any) -> None:
    words = ", ".join(_shown(each) for each in (args[:1] if name.startswith("os.exec") else args))
    # `os.execl` and its like call `execv` from Python's frozen module `os`; the user's line is further out.
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_OURS, "<frozen ")):
        frame = frame.f_back
    recorder.add(ProgramExited(f"{name}({words})", frame.f_code.co_filename, frame.f_lineno))


def _shown(value: Any) -> str:
    if isinstance(value, signal.Signals):
        return value.name
    if isinstance(value, int | str | bytes):
        return repr(value)[:80]
    return type(value).__name__
