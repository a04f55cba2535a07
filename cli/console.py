"""Consoles on stdout and stderr, messages, and writing a report."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from ctrace.cli.streams import is_unread, put
from ctrace.inspector.errors import RunError, TargetError
from ctrace.reports.escape import SafeText, one, plain_text, without_commands

if TYPE_CHECKING:
    from rich.console import Console

    from ctrace.inspector.runs.store import Store

# Chosen: one line for what is left over; beyond a few commands, their number says it.
_NAMED = 5
PLAIN_WIDTH = 100
"""The width of a screen in a pipe or a file."""
_LONGEST = 4_000
"""The most characters of a message on stderr."""


def console(*, stderr: bool = False) -> "Console":
    """Make a console on stdout or stderr; colored only on a terminal without NO_COLOR."""
    from rich.console import Console

    stream = unguarded(sys.stderr if stderr else sys.stdout)
    # In a pipe, rich takes the width of another stream's terminal, or 80 columns: reports would differ by where they
    # are made.
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    return Console(file=stream, width=width, soft_wrap=False, emoji=False)


class GuardedStream:
    """A stream that writes plain text only: no control characters, no commands to a CI system.

    It replaces stdout and stderr while a command runs, so that everything printed there is safe, even by a library or
    a traceback. Documents and screens go to the stream behind it; they are safe already.
    """

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind

    def write(self, text: str) -> int:
        """Write text with hidden letters and CI commands escaped."""
        # A caller compares the number with the length of its own text, which escapes make longer.
        self.behind.write(plain_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, each as `write` does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream behind a guarded one, for text that is safe already."""
    if isinstance(stream, GuardedStream):
        return stream.behind
    return stream


def is_stdout_unread() -> bool:
    """Whether the reader of stdout has closed its pipe."""
    return is_unread(unguarded(sys.stdout))


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard stdout and stderr during the block; Python represents a closed stream by None."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and cast("TextIO", GuardedStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def can_ask() -> bool:
    """Whether somebody can read a question on stderr and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def says_yes(question: str) -> bool:
    """Ask on stderr; anything but a yes is a no."""
    print(f"{one_line_of(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(text: str) -> None:
    """Print one line on stderr; ignore a stderr that cannot be written."""
    with suppress(OSError):
        print(one_line_of(text), file=sys.stderr, flush=True)


def complain(what: str, todo: str) -> None:
    """Print an error and its fix on stderr, one line each."""
    with suppress(OSError):
        print(one_line_of(f"ctrace: {what}"), one_line_of(f"  {todo}"), sep="\n", file=sys.stderr, flush=True)


def one_line_of(text: str) -> str:
    """Make a message one line of plain text of limited length."""
    safe = without_commands(one(text[:_LONGEST]))
    if len(text) <= _LONGEST:
        return safe
    return f"{safe}… ({len(text) - _LONGEST:,} more characters)"


def say_unsaved(store: "Store") -> None:
    """Say which runs could not be saved, and why; give each reason once."""
    from ctrace.inspector.files.disk_errors import reason, remedy

    reasons: dict[str, list[OSError]] = {}
    # Emptied in place, so that the next call says only what came since.
    errors_met, store.unsaved[:] = store.unsaved[:], []
    for error in errors_met:
        reasons.setdefault(reason(error), []).append(error)
    for why, errors in reasons.items():
        what = "the run was" if len(errors) == 1 else f"{len(errors)} runs were"
        complain(f"{what} not saved: {why}", remedy(errors[0]))


def say_left(left: Sequence[str], of: str = "") -> None:
    """Report processes that the program left running and that ctrace killed."""
    from ctrace.reports.format import count, one_line

    if left:
        names = ", ".join(one_line(each) for each in left[:_NAMED])
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        program = f"{of} left" if of else "the program left"
        say(f"ctrace: ended {count(len(left), 'process', 'processes')} that {program} running: {names}{more}")


def check_output(output: Path | None) -> None:
    """Refuse an output file that cannot be written, before a long capture.

    Raises:
        TargetError: its folder is missing, or it is a folder, or the user may not write there.
    """
    if output is None or str(output) == "-":
        return
    if output.is_dir() or not output.absolute().parent.is_dir():
        what = f"{output} is a folder" if output.is_dir() else f"{output}: there is no folder {output.parent}"
        raise TargetError(what, "name another file with -o")
    # A file is replaced by a new one in its folder, where that may be written, and else written in place.
    file = Path(os.path.realpath(output))
    if not os.access(file.parent, os.W_OK) and not os.access(file, os.W_OK):
        raise TargetError(f"{output} cannot be written: no permission for its folder", "name another file with -o")


def write_report(text: SafeText, output: Path | None, *, is_said: bool = True) -> None:
    """Write a report to a file, or to stdout if `output` is None or `-`; say that the file was written if `is_said`.

    Raises:
        RunError: the file cannot be written.
    """
    if output is None or str(output) == "-":
        stream = unguarded(sys.stdout)
        put(text, stream)
        stream.flush()
        return
    from ctrace.inspector.files.disk_errors import reason
    from ctrace.inspector.files.writing import write_output

    try:
        write_output(output, text)
    except OSError as error:
        raise RunError(f"{output} cannot be written: {reason(error)}", "name another file with -o") from None
    if is_said:
        say(f"Wrote {output}")
