"""Status lines of a capture and of a check."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from ctrace.cli.console import console, say, unguarded
from ctrace.cli.program_output import ProgramOutput
from ctrace.inspector.facts import bytecode_facts, run_events
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.fusion_facts import FusionRecord
from ctrace.inspector.runs.child import cannot_start
from ctrace.inspector.source.stacks import resumed
from ctrace.reports.format import one_line

if TYPE_CHECKING:
    from rich.status import Status

    from ctrace.inspector.features.check.gate_model import CheckJob

_WIDTH = 76
"""Width of the status line; with rich's spinner it fits into 80 columns."""
_LONG_SECONDS = 30.0
"""After this time in one stage of a compilation, tell the user which stage it is and how to avoid it."""


_SILENCE_SECONDS = 20.0
"""In a pipe or a file, where no status line shows that work goes on, the most time without a line on stderr."""


class _Lines:
    """Writes a line of progress now and then, where stderr is no terminal."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Write the line, unless another one was written a moment ago."""
        now = time.monotonic()
        if now - self._last >= _SILENCE_SECONDS:
            self._last = now
            say(f"ctrace: {text}")


class Progress:
    """Shows stage, function and elapsed time of a capture: on one line of a terminal, else on a line now and then."""

    def __init__(self, status: "Status | None" = None, *, is_program: bool = False) -> None:
        self._status = status
        self._began = self._stage_began = time.monotonic()
        self._stage = "starting Python and torch"
        self._function = ""
        self._is_compiling = False
        self._explains_delay = not is_program
        self._lines = None if is_program or status is not None else _Lines()
        self.child_output: int | IO[bytes] = 2
        """Where the child's stdout and stderr go: to stderr, because stdout is for the report."""

    def say(self, text: str) -> None:
        """Show a step outside of the capture."""
        self._stage, self._function = text, ""
        self.observe(None)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Take the status line away while in the block, where a question is asked."""
        if self._status is not None:
            self._status.stop()
        try:
            yield
        finally:
            if self._status is not None:
                self._status.start()

    def observe(self, event: ev.Event | None) -> None:
        """Update the status from a log event."""
        match event:
            case ev.CompileStarted(stack=stack) if stack:
                self._function = resumed(stack[-1].name)[0]
                self._enter("dynamo", is_compiling=True)
            case bytecode_facts.GraphMade() | bytecode_facts.GraphTraced():
                self._enter("backend", is_compiling=True)
            case FusionRecord(stage=stage):
                self._enter(f"inductor ({stage})", is_compiling=True)
            case run_events.CallBegan(scenario=scenario, index=index):
                self._function = ""
                self._enter(f"scenario {scenario}, call {index + 1}")
            case bytecode_facts.BytecodeSeen():
                self._enter("running")
        self._explain_delay()
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(self._text()))
        elif self._lines is not None:
            self._lines.say(self._text())

    def _text(self) -> str:
        elapsed = int(time.monotonic() - self._began)
        name = f" · {self._function}" if self._function else ""
        return one_line(f"{self._stage}{name} · {elapsed // 60}:{elapsed % 60:02d}", _WIDTH)

    def _enter(self, stage: str, *, is_compiling: bool = False) -> None:
        self._stage, self._stage_began, self._is_compiling = stage, time.monotonic(), is_compiling

    def _explain_delay(self) -> None:
        """Say once which stage takes long, and what the user can do."""
        seconds = time.monotonic() - self._stage_began
        if self._explains_delay and self._is_compiling and seconds > _LONG_SECONDS:
            self._explains_delay = False
            say(
                f"ctrace: compiling {self._function or 'a graph'} has been in {self._stage} for {seconds:.0f} s. "
                "Ctrl-C stops and reports what was seen so far; ctrace explain --fast stops after Dynamo."
            )


@contextmanager
def progress(*, is_program: bool = False, of: str = "") -> Iterator[Progress]:
    """Show progress while in the block; the output of the model named `of` scrolls above the line, marked as its own.

    A program gets the whole terminal, because it may ask for a password or show its own progress.
    """
    if is_program or not sys.stderr.isatty():
        shown = Progress(is_program=is_program)
        with nullcontext() if is_program or not of else _marked(of, shown, _plain):
            yield shown
        return
    talk = console(stderr=True)
    with talk.status("starting") as status:
        shown = Progress(status)

        def write(text: bytes) -> None:
            talk.out(text.decode(talk.encoding, "replace"), style="dim", highlight=False, end="")
            talk.file.flush()

        with _marked(of, shown, write, lambda is_asking: status.stop() if is_asking else status.start()):
            yield shown


def _plain(text: bytes) -> None:
    """Write output to a stderr that is no terminal, in the bytes that the program wrote."""
    stream = unguarded(sys.stderr)
    with suppress(OSError):  # nobody reads stderr any more, which must not end the capture
        stream.flush()
        stream.buffer.write(text)
        stream.buffer.flush()


@contextmanager
def _marked(
    name: str,
    shown: Progress,
    write: Callable[[bytes], None],
    asking: Callable[[bool], None] = lambda _is_asking: None,
) -> Iterator[None]:
    """Send the child's output through a pipe in the block, and say at the end which warnings were left out.

    Raises:
        SetupError: the system cannot start a thread.
    """
    output = ProgramOutput(name, write, asking)
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as sink:
        shown.child_output = sink
        pump = threading.Thread(target=output.run, args=(reading,), daemon=True)
        try:
            pump.start()
        except RuntimeError as error:  # ulimit -u
            os.close(reading)
            raise cannot_start(error) from None
        try:
            yield
        finally:
            sink.close()
            pump.join(timeout=1.0)  # a process that we may not kill, such as another user's, may keep the pipe open
            for note in output.notes():
                say(f"ctrace: {note}")


class Many:
    """Shows the progress of a check's jobs: on one line of a terminal, else on a line now and then."""

    def __init__(self, total: int, status: "Status | None" = None) -> None:
        self._total = total
        self._status = status
        self._ended = 0
        self._running: list[CheckJob] = []
        self._lines = _Lines()

    def observe(self, job: "CheckJob", what: str) -> None:
        """Record that a job started or ended; see `pool.run_jobs`."""
        from ctrace.inspector.features.check.pool import STARTED

        if what == STARTED:
            self._running.append(job)
        else:
            self._running.remove(job)
            self._ended += 1
        if self._status is None:
            self._lines.say(one_line(self._text(), _WIDTH))
            return
        from rich.text import Text

        self._status.update(Text(one_line(self._text(), _WIDTH)))

    def _text(self) -> str:
        """Name the job that has run longest, for which the check most likely waits."""
        done = f"{self._ended} of {self._total}"
        if not self._running:
            return done
        first, *others = self._running
        more = f" and {len(others)} more" if others else ""
        return f"{done}, running {_short(first)}{more}"


def _short(job: "CheckJob") -> str:
    key = job.key
    folder, _, name = key.model.rpartition("/")
    return str(replace(key, model=name)) if folder else str(key)


@contextmanager
def many(total: int) -> Iterator[Many]:
    """Show the progress of `total` jobs while in the block."""
    if not sys.stderr.isatty():
        yield Many(total)
        return
    with console(stderr=True).status(f"0 of {total}") as status:
        yield Many(total, status)


@contextmanager
def reading(noun: str, done: str = "read") -> "Iterator[Callable[[int, int], None] | None]":
    """Show how many of some things are done while in the block; yield what to call after each, None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with console(stderr=True).status(noun) as status:
        yield lambda number, total: status.update(f"{done} {number} of {total} {noun}")


@contextmanager
def reading_log(name: str) -> "Iterator[Callable[[int, int], None] | None]":
    """Show how much of a log was read, how fast, and the time left; yield what to call, None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.text import Text

    began = time.monotonic()
    with console(stderr=True).status("reading") as status:

        def show(done: int, size: int) -> None:
            seconds = max(time.monotonic() - began, 1e-3)
            rate = done / seconds
            left = f", {(size - done) / rate:.0f} s left" if done and size > done and seconds > 1 else ""
            shown = f"reading {name}: {done / 1e6:.0f} of {size / 1e6:.0f} MB, {rate / 1e6:.0f} MB/s{left}"
            status.update(Text(one_line(shown, _WIDTH)))

        yield show
