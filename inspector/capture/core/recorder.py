"""Write the records of every hook of a capture; measurements that would disturb the program wait until it is over."""

import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from os import getpid
from types import TracebackType
from typing import Any, Protocol

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.facts.run_events import ProblemMet
from ctrace.inspector.facts.wire import Record


class Measurement(Protocol):
    """What a hook wants to measure once the program is over."""

    def measure(self) -> None:
        """Measure; nothing of the program runs afterwards."""

    def refuse(self, why: str) -> None:
        """Record why this is never measured."""


class Postponed:
    """The measurements that wait in this process."""

    def __init__(self) -> None:
        self._process = getpid()
        self._waiting: list[Measurement] = []

    def add(self, measurement: Measurement) -> None:
        """Let a measurement wait."""
        self._waiting.append(measurement)

    def measure(self) -> None:
        """Measure what waits: the program, its threads and its exit functions have ended."""
        self._each(lambda waiting: waiting.measure())

    def refuse(self, why: str) -> None:
        """Cancel the measurements that still wait."""
        self._each(lambda waiting: waiting.refuse(why))

    def _each(self, act: Callable[[Measurement], None]) -> None:
        if getpid() != self._process:  # a fork of the program: its parent goes on
            return
        # Taken out first: `refuse` follows `measure` at the end of a capture, and each measurement gets one of both.
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            act(each)


class Recorder(Struct):
    """Writes ctrace's records into the log, and keeps a hook's failure from reaching the user's program."""

    log: TraceLog
    postponed: Postponed = field(default_factory=Postponed)
    """What hooks measure once the program is over."""
    doubts: list[Callable[[], str]] = field(default_factory=list)
    """Each returns why the program's values are not real, such as kernels that nothing here can run; "" if they are."""
    _failed: set[str] = field(default_factory=set)

    @property
    def doubt(self) -> str:
        """The first reason why the program's values are not real; "" if there is none."""
        return next(filter(None, (why() for why in self.doubts)), "")

    def keeps(self, name: str) -> bool:
        """Whether `add` writes a record of a kind now; if not, a hook can skip its work."""
        return self.log.keeps(f"ctrace_{name}")

    @contextmanager
    def keeping(self, kinds: Collection[str]) -> Iterator[None]:
        """Restrict the records that this thread writes in the block to these kinds, for torch and ctrace."""
        before = self.log.kept
        self.log.kept = kinds
        try:
            yield
        finally:
            self.log.kept = before

    def add(self, record: Record, at: dict[str, Any] | None = None) -> None:
        """Write a record about the compilation `at`, by default the current one, if any."""
        self.log.add(record, compile_context() if at is None else at)

    def problem(self, what: str) -> None:
        """Record that something could not be measured, once for each text."""
        if what not in self._failed:
            self._failed.add(what)
            self.add(ProblemMet(what))

    def watching(self, what: str) -> "_Watching":
        """Turn an exception of a hook into a `problem`; the program continues as if the hook did not exist."""
        return _Watching(self, what)


class _Watching:
    """The context of `Recorder.watching`; a class is cheaper than a generator, for each line of each kernel."""

    __slots__ = ("_recorder", "_what")

    def __init__(self, recorder: Recorder, what: str) -> None:
        self._recorder = recorder
        self._what = what

    def __enter__(self) -> None:
        """Start watching."""

    def __exit__(self, _type: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Record an exception as a problem; let through what ends a program, such as KeyboardInterrupt."""
        if not isinstance(error, Exception):
            return False
        # The innermost frame: there a hook found torch to be other than it expects.
        at = traceback.extract_tb(trace)[-1]
        problem = f"{self._what} could not be recorded: {kind_and_message(error)} ({at.name}:{at.lineno})"
        self._recorder.problem(problem)
        return True


def compile_context() -> dict[str, Any]:
    """Return the current compilation as log entries name it; return an empty dict if there is none."""
    # Not an import: a record may be written before the program has imported torch.
    guards = sys.modules.get("torch._guards")
    if guards is None:
        return {}
    trace_id = guards.CompileContext.current_trace_id()
    # Compiled autograd compiles outside of any frame, as `!3` (_guards.py:CompileId, 2.13).
    if trace_id is None or trace_id.compile_id.frame_id is None:
        return {}
    compile_id = trace_id.compile_id
    return {
        "frame_id": compile_id.frame_id,
        "frame_compile_id": compile_id.frame_compile_id,
        "attempt": trace_id.attempt,
    }
