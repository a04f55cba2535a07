"""Set up the standard streams of the command line, so that no text and no state of theirs can end a command; and end a
command cleanly on a signal.

A stream may be closed, may not block, or may have an encoding without box drawing, arrows or the letters of a user's
names: Latin-1, ASCII, a Windows code page. Letters that it lacks become plain ASCII, or an escape that keeps a document
what it is.

A signal becomes an exception (`ending_in_order`), so that the processes that the command started end, too.
"""

import codecs
import os
import re
import select
import signal
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import IO, TYPE_CHECKING, Any, NoReturn, TextIO

from ctrace.reports.escape import FileText, JsonText, MarkupText, SafeText, json_letter

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_EQUIVALENTS = str.maketrans({
    "…": "...", "·": "-", "•": "*", "●": "*", "×": "x", "µ": "u", "°": " deg", "–": "-", "—": "-", "\u2212": "-",
    "\u2018": "'", "\u2019": "'", "“": '"', "”": '"', "→": "->", "←": "<-", "↔": "<->", "⇒": "=>", "↑": "^", "↓": "v",
    "▸": ">", "▶": ">", "◀": "<", "▲": "^", "▼": "v", "✓": "+", "✔": "+", "✗": "x", "✘": "x", "≤": "<=", "≥": ">=",
    "≠": "!=", "≈": "~", "±": "+-", "²": "^2", "³": "^3", "∞": "inf", "\u00a0": " ",
})  # fmt: skip


def equivalent(text: str) -> str:
    """Return text in ASCII: signs as a similar one, other letters as Python writes them in a string."""
    return "".join(map(_of, text.translate(_EQUIVALENTS)))


@lru_cache(maxsize=4096)
def _of(letter: str) -> str:
    if letter.isascii():
        return letter
    name = unicodedata.name(letter, "")
    if name.startswith("BOX DRAWINGS"):
        is_across, is_down = (any(word in name for word in words) for words in (_ACROSS, _DOWN))
        if is_across == is_down:
            return "+"
        return "-" if is_across else "|"
    if name.startswith("BRAILLE PATTERN"):  # a progress spinner
        return "*"
    if name.endswith(("BLOCK", "EIGHTHS")) or " SHADE" in name:  # a bar
        return "#"
    return letter.encode("ascii", "backslashreplace").decode()


_ACROSS = ("HORIZONTAL", "LEFT", "RIGHT")
_DOWN = ("VERTICAL", "UP", "DOWN")


_REFUSING = ("strict", "surrogateescape", "backslashreplace")
"""Python's own choices of an error handler; others are the user's."""

_CELL = re.compile(r"(?P<text>\S+(?: \S+)*)(?P<blanks> *)")
"""A text up to the end of its line or column."""


class _Output(FileIO):
    """Stdout or stderr, for whose state a command does not fail.

    A reader that closed its pipe wants no more: the rest is dropped, and the command ends with the exit code that it
    has anyway. What stderr cannot take is dropped, too, since no message could say so.
    """

    is_broken = False
    """Whether the reader closed its pipe."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write some of the data; wait for a pipe that does not block, instead of giving up."""
        size = memoryview(data).nbytes
        try:
            while not self.is_broken and (written := super().write(data)) is None:
                select.select([], [self], [])
        except BrokenPipeError:
            self.is_broken = True
        except OSError:
            if self.fileno() != 2:
                raise
            return size
        if self.is_broken:
            return size
        return written or 0


def open_standard_streams() -> None:
    """Make the standard streams usable: replace closed ones by the null device, and let none fail on a letter."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, _null(number, mode))
    sys.stdout, sys.stderr = _output(sys.stdout), _output(sys.stderr)


def _output(stream: TextIO) -> TextIO:
    """Return a stream that fails neither on a letter nor on a reader that is gone."""
    if not isinstance(stream, TextIOWrapper):  # put there by a caller
        return stream
    handler = stream.errors
    if handler in _REFUSING:
        handler = f"ctrace-{stream.encoding}"
        codecs.register_error(handler, partial(_replaced, stream.encoding))
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), FileIO):  # a console of Windows, or in memory
        stream.reconfigure(errors=handler)
        return stream
    is_prompt = stream.line_buffering or stream.write_through
    raw = _Output(stream.fileno(), "w", closefd=False)
    return TextIOWrapper(BufferedWriter(raw), stream.encoding, handler, line_buffering=is_prompt)


def is_unread(stream: TextIO) -> bool:
    """Whether the reader of a stream has closed its pipe, so that a command without an end may as well stop."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Output) and raw.is_broken


def _null(number: int, mode: str) -> IO[Any]:
    """Open the null device under the number of a closed stream; otherwise the next file that is opened gets it."""
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    # Child processes need their standard streams as well.
    os.set_inheritable(number, True)
    return os.fdopen(number, mode, encoding="utf-8", closefd=False)


def _replaced(encoding: str, error: UnicodeError) -> tuple[str, int]:
    """Replace the letters of a table's cell that an encoding lacks; shorten the blanks after a cell that grows.

    An error of a Windows code page calls its encoding "charmap", so `encoding` names it.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    cell = _CELL.match(error.object, error.start)
    text, end = (cell["text"], cell.end("text")) if cell else (error.object[error.start : error.end], error.end)
    plain = "".join(each if _has(encoding, each) else equivalent(each) for each in text)
    blanks = len(cell["blanks"]) if cell else 0
    return plain, end + max(min(len(plain) - len(text), blanks - 1), 0)


def _has(encoding: str, letter: str) -> bool:
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def put(document: SafeText, stream: TextIO) -> None:
    """Write a document to a stream. If the stream lacks letters, JSON and markup keep them as escapes.

    Files such as HTML and patches are UTF-8 by their format; a stream of another encoding gets the bytes of the file.
    """
    if not _lacks_letters(stream):
        stream.write(document)
    elif isinstance(document, JsonText):
        stream.write(re.sub(r"[^\x00-\x7f]", lambda match: json_letter(match[0]), document))
    elif isinstance(document, MarkupText):
        stream.write(document.encode("ascii", "xmlcharrefreplace").decode())
    elif isinstance(document, FileText):
        # First what is still in the layer of text, or it would come out behind the bytes.
        stream.flush()
        stream.buffer.write(document.encode("utf-8", "surrogateescape"))
    else:
        stream.write(document)


def _lacks_letters(stream: TextIO) -> bool:
    encoding = getattr(stream, "encoding", None)
    return encoding is not None and hasattr(stream, "buffer") and not codecs.lookup(encoding).name.startswith("utf")


def drop(stream: TextIO) -> None:
    """Point a broken stream at the null device, so that Python does not fail when it flushes the rest."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


# Windows has no SIGHUP.
_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class EndedBySignal(SystemExit):
    """Ends the command with a shell's exit code for the signal: 128 + number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise `EndedBySignal` on signals that would otherwise end Python at once or with an error."""

    def end(number: int, _frame: object) -> NoReturn:
        raise EndedBySignal(number)

    # Signals that nohup ignores stay ignored. None is a handler not set by Python, which cannot be restored.
    handled = [number for number in _ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, end) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ending_signal(error: BaseException | None) -> EndedBySignal | None:
    """Return the signal that an exception was raised from, if there is one.

    Before Python 3.12, what is raised in `__set_name__` comes out of a class body as RuntimeError. A signal arrives
    there now and then, since importing libcst calls hundreds of those.
    """
    while error is not None and not isinstance(error, EndedBySignal):
        error = error.__cause__
    return error
