"""Read a log that is not a finished file: one from standard input, or one that a job still writes."""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ctrace.cli.console import say
from ctrace.inspector.errors import TargetError

if TYPE_CHECKING:
    from ctrace.inspector.facts.run_events import Event
    from ctrace.inspector.facts.session import Session

# Chosen: large enough that copying takes few calls, small beside what a log takes in memory.
_PIECE = 1 << 20


def session_of_input() -> "Session":
    """Read a log from standard input, compressed or not.

    Raises:
        TargetError: it is a terminal, or has no log.
        RunError: it cannot be read or kept.
    """
    if sys.stdin.isatty():
        raise TargetError("standard input is a terminal", "pipe a log into it: zcat job.log.gz | ctrace explain -")
    return _session_of_stream(sys.stdin.buffer, "standard input")


def session_of_pipe(pipe: Path) -> "Session":
    """Read a log from a named pipe, such as that of `ctrace explain <(zcat job.log.gz)`.

    Raises:
        TargetError: it has no log.
        RunError: it cannot be read or kept.
    """
    from ctrace.inspector.log.files import unreadable

    try:
        stream = pipe.open("rb")
    except OSError as error:
        raise unreadable(pipe, error) from None
    with stream:
        return _session_of_stream(stream, str(pipe))


def _session_of_stream(stream: BinaryIO, name: str) -> "Session":
    from ctrace.inspector.files.scratch import scratch_folder
    from ctrace.inspector.log.files import is_log

    # A log is read more than once, and a pipe cannot be.
    log = scratch_folder() / "log"
    _copy(stream, log, name)
    if not is_log(log):
        what = f"{name} is not a trace log" if log.stat().st_size else f"{name} is empty"
        raise TargetError(what, "pipe a log that TORCH_TRACE wrote")
    return _session_of_copy(log, name)


def session_of_parts(parts: tuple[Path, ...]) -> "Session":
    """Read the files of a rotated log as one, and say so.

    Raises:
        RunError: one cannot be read, or there is no space for a copy.
    """
    from ctrace.inspector.files.scratch import scratch_folder
    from ctrace.inspector.log.files import join, rotation_note

    say(f"ctrace: {rotation_note(parts)}")
    log = scratch_folder() / parts[-1].name
    join(parts, log)
    return _session_of_copy(log, str(parts[-1]))


def _session_of_copy(log: Path, name: str) -> "Session":
    from msgspec.structs import replace

    from ctrace.cli.progress import reading_log
    from ctrace.inspector.facts.outcome import Target
    from ctrace.inspector.runs.load import load_log

    with reading_log(name) as progress:
        return replace(load_log(log, progress=progress), target=Target(path=name))


def _copy(source: BinaryIO, log: Path, name: str) -> None:
    """Copy standard input or a pipe to a file.

    Raises:
        RunError: there is no space left, or it cannot be read.
    """
    import shutil

    from ctrace.inspector.errors import RunError

    try:
        with log.open("wb") as file:
            shutil.copyfileobj(source, file, _PIECE)
    except OSError as error:
        what = f"{name} cannot be kept in {log.parent}: {error.strerror or error}"
        raise RunError(what, "name the log instead, or another folder: TMPDIR=/path") from None


def followed(log: Path) -> "Session":
    """Read a log while a job writes it, and say what happens; Ctrl-C ends this, and returns what was read.

    Raises:
        RunError: the log cannot be read.
    """
    from ctrace.inspector.facts.outcome import Target
    from ctrace.inspector.log.collected_log import CollectedLog
    from ctrace.inspector.log.files import unreadable
    from ctrace.inspector.log.reader import follow
    from ctrace.inspector.session.build import assemble

    raw, interrupts = CollectedLog(), list[int]()
    say(f"ctrace: following {log}; Ctrl-C ends it and shows the report")
    # Only noted: an exception amid a record would lose what was read.
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        for item in follow(log, lambda: bool(interrupts)):
            if line := _line(raw.add(item)):
                say(line)
    except OSError as error:
        raise unreadable(log, error) from None
    finally:
        signal.signal(signal.SIGINT, before)
    return assemble(raw, Target(path=str(log)), None, None)


def _line(event: "Event | None") -> str:
    """Say what an event means, in one line; empty for most."""
    from ctrace.inspector.facts import guard_facts as ge
    from ctrace.inspector.facts import run_events as ev
    from ctrace.inspector.source.stacks import resumed
    from ctrace.reports.format import one_line

    match event:
        # Further attempts are of the same compilation.
        case ev.CompileStarted(attempt=0) if event.stack:
            return one_line(f"{event.id} compiling {resumed(event.stack[-1].name)[0]}", 100)
        case ge.RecompileExplained():
            return one_line(f"{event.id} recompiles: {event.reasons[0] if event.reasons else 'no reason'}", 160)
        case ev.BreakReported():
            return one_line(f"{event.id} graph break: {_reason(event.text)}", 160)
        case ev.MetricsMeasured(backward=False):
            took = "" if event.frame_seconds is None else f" after {event.frame_seconds:.1f} s"
            return one_line(f"{event.id} {'failed' if event.fail_type else 'compiled'}{took}", 100)
    return ""


def _reason(text: str) -> str:
    """Return torch's report of a break without its line breaks; it starts with the place."""
    return " ".join(text.split())
