"""Status lines of a capture (`progress`), of a check (`many`) and of reading a log, and what the model prints
meanwhile.

That stands apart from ctrace's own lines: marked, repetitions folded, each warning of torch once (`ProgramOutput`).
"""

import os
import re
import select
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from ctrace.cli.console import console, say, unguarded
from ctrace.inspector.facts import bytecode_facts, run_events
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.fusion_facts import FusionRecord
from ctrace.inspector.knowledge.counting import count
from ctrace.inspector.runs.child import cannot_start
from ctrace.inspector.source.stacks import resumed
from ctrace.reports.format import one_line

if TYPE_CHECKING:
    from rich.status import Status

    from ctrace.inspector.features.check.check_model import CheckJob


_ASKING_SECONDS = 0.2
"""Seconds after which an unfinished line counts as a prompt."""
_MARK = b"| "
_LONGEST = 1 << 16
"""Bytes after which a line without an end is broken: a program may write any number of them."""
_REMEMBERED = 100
"""How many lines back a repetition is recognized; a longer block is shown each time."""

_WARNING = re.compile(
    rb"(?:\[rank\d+\]:)?W\d{4} [\d:.]+ \d+ (?P<place>torch/\S+:\d+)\] (?:\[[!\d/_]+\] )?(?P<text>.*)", re.DOTALL
)
"""A line of a warning in torch's log; each line of a record has its head (torch/_logging/_internal.py:1026, 2.13)."""
_BREAK = b"Graph break from "
_REPORTED = {
    _BREAK: ("about a graph break", "ctrace breaks"),
    b"torch._dynamo hit config.": ("about the recompile limit", "ctrace recompiles"),
}
"""How warnings begin that ctrace reports as findings (torch/_dynamo/variables/tensor.py:1759 and
torch/_dynamo/convert_frame.py:1994, 2.13), with their subject and the command that shows it."""

_UNTRACED = re.compile(
    rb".*/_dynamo/variables/\w+\.py:\d+: UserWarning: Dynamo does not know how to trace the builtin "
)
"""How a Python warning begins that torch adds to a break (torch/_dynamo/variables/functions.py:2431, 2.13)."""
_UNTRACED_GOES_ON = (
    b"If it is a Python builtin, ",
    b"If it is a third-party C/C++ Python extension, ",
    b"  torch._dynamo.utils.warn_once(",
)
"""How its other lines begin: the hints, and the line of torch that warns."""


class _Repetitions:
    """Passes lines on, and folds a block of lines that follows itself, such as the prints of each call."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._recent: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._block: list[bytes] = []
        self._matched = 0
        self._times = 0

    def add(self, line: bytes) -> None:
        """Write a line unless it continues a repetition."""
        if self._block and line != self._block[self._matched]:
            self.flush()
        if not self._block and line in self._recent:
            recent = list(self._recent)
            # From the last such line, so that the shortest block is taken.
            start = len(recent) - 1 - recent[::-1].index(line)
            self._block = recent[start:]
        if self._block:
            self._matched += 1
            if self._matched == len(self._block):
                self._matched = 0
                self._times += 1
            return
        self._show(line)

    def flush(self) -> None:
        """Write how often the block was repeated, and the lines of a repetition that did not end."""
        block, matched, times = self._block, self._matched, self._times
        self._block, self._matched, self._times = [], 0, 0
        if times:
            what = "last line" if len(block) == 1 else f"last {len(block)} lines"
            again = "once more" if times == 1 else f"{times} more times"
            self._write(f"({what}, {again})\n".encode())
        for line in block[:matched]:
            self._show(line)

    def _show(self, line: bytes) -> None:
        self._recent.append(line)
        self._write(line)


class _Warnings:
    """Decides which lines of torch's log are shown: no warning twice, and none that ctrace reports as a finding."""

    def __init__(self) -> None:
        self.reported: Counter[bytes] = Counter()
        """How many warnings were left out because ctrace reports them, by how they begin."""
        self._seen: set[tuple[bytes, bytes]] = set()
        self._head = b""
        self._is_shown = True
        self._in_untraced = False

    def shows(self, line: bytes) -> bool:
        """Decide whether to show a line, and count it if ctrace reports what it warns of."""
        if _UNTRACED.match(line):
            self._in_untraced = True
            self.reported[_BREAK] += 1
            return False
        self._in_untraced = self._in_untraced and line.startswith(_UNTRACED_GOES_ON)
        if self._in_untraced:
            return False
        match = _WARNING.match(line)
        if match is None:
            return True
        # Lines of one record have one head, and are shown or left out together.
        head = line[: match.end("place")]
        if head != self._head:
            self._head = head
            self._is_shown = self._is_news(match["place"], match["text"])
        return self._is_shown

    def _is_news(self, place: bytes, text: bytes) -> bool:
        for start in _REPORTED:
            if text.startswith(start):
                self.reported[start] += 1
                return False
        is_new = (place, text) not in self._seen
        self._seen.add((place, text))
        return is_new


class ProgramOutput:
    """Forwards a model's output: whole lines, each marked, and prompts as they come.

    Torch's log is left as it is if the user asked for it with TORCH_LOGS.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[bytes], None],
        asking: Callable[[bool], None] = lambda _is_asking: None,
    ) -> None:
        self._heading = f"output of {name}\n".encode()
        self._to = write
        self._asking = asking
        self._partial = b""
        self._is_asking = False
        self._lines = _Repetitions(self._marked)
        self._warnings = None if os.environ.get("TORCH_LOGS") else _Warnings()

    def run(self, reading: int) -> None:
        """Read until all writers have closed the pipe."""
        with os.fdopen(reading, "rb", buffering=0) as source:
            while True:
                # Only an unfinished line can be a prompt, so that without one there is nothing to wake up for.
                if not select.select([source], [], [], _ASKING_SECONDS if self._partial else None)[0]:
                    self._ask()
                elif chunk := source.read(1 << 16):
                    self._pass_on(chunk)
                else:
                    break
        if self._is_asking:
            self._to(self._partial + b"\n")
        elif self._partial:
            self._add(self._partial + b"\n")
        self._lines.flush()

    def notes(self) -> list[str]:
        """Say which warnings were left out, and what shows their subject instead."""
        reported = self._warnings.reported if self._warnings is not None else {}
        return [
            f"torch warned {count(times, 'time')} {_REPORTED[start][0]}: see {_REPORTED[start][1]}"
            for start, times in reported.items()
        ]

    def _pass_on(self, chunk: bytes) -> None:
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            if self._is_asking:
                self._is_asking = False
                self._to(line + b"\n")
                self._asking(False)
            else:
                self._add(line + b"\n")
        if len(self._partial) > _LONGEST:
            if self._is_asking:
                self._to(self._partial)
            else:
                self._add(self._partial + b"\n")
            self._partial = b""

    def _add(self, line: bytes) -> None:
        if self._warnings is None or self._warnings.shows(line):
            self._lines.add(line)

    def _ask(self) -> None:
        """Show an unfinished line, such as the prompt of `input()`, without the status line until the next line."""
        self._lines.flush()
        if not self._is_asking:
            self._is_asking = True
            self._asking(True)
            self._marked(self._partial)
        else:
            self._to(self._partial)
        self._partial = b""

    def _marked(self, line: bytes) -> None:
        self._to(self._heading + _MARK + line)
        self._heading = b""


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
            # `out` neither folds lines nor reads markup in them.
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
        # A daemon, since a process that keeps the pipe open must not keep ctrace from ending.
        pump = threading.Thread(target=output.run, args=(reading,), daemon=True)
        try:
            pump.start()
        except RuntimeError as error:  # ulimit -u
            os.close(reading)
            raise cannot_start(error) from None
        try:
            yield
        finally:
            # The pump ends when nobody can write any more, and this process could.
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
    if folder:
        return str(replace(key, model=name))
    return str(key)


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
