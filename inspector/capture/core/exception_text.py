"""What an exception of the user's code says, whatever it does when it is asked.

Its `__str__` may raise, return no string, or tens of megabytes; its class may have a metaclass that lies about the
name; a message may hold lone surrogates, which no UTF-8 file takes.
"""

import traceback
from types import TracebackType
from typing import Any

LONGEST = 100_000
"""Letters of a message that a log keeps; the rest is counted."""
_LONGEST_PRINTED = 10_000


def type_name(error: BaseException) -> str:
    """Return the qualified name of an exception's class, past a metaclass that has a `__qualname__` of its own."""
    name = type.__dict__["__qualname__"].__get__(type(error))
    return written(name) if isinstance(name, str) else "exception"


def message(error: BaseException) -> str:
    """Return what an exception says, or which part of it cannot be asked; never raise."""
    try:
        return shortened(written(str(error)), LONGEST)
    except Exception as why:
        return f"<its __str__ raises {type_name(why)}>"


def kind_and_message(error: BaseException) -> str:
    """Return an exception's kind and message: `ValueError: no such luck`."""
    return f"{type_name(error)}: {message(error)}"


def text_of(value: Any) -> str:
    """Return a value as text, such as an exit code that is any object; never raise."""
    try:
        return shortened(written(str(value)), LONGEST)
    except Exception as why:
        return f"<a {type(value).__name__} whose __str__ raises {type_name(why)}>"


def written(text: str) -> str:
    """Spell out what UTF-8 cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(text: str, most: int) -> str:
    """Cut a text that is too long, and say how much is left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}… ({left:,} more characters)"


def traceback_text(error: BaseException, frames: TracebackType | None) -> str:
    """Write a traceback as Python does, each of its pieces cut where it is too long."""
    pieces = traceback.format_exception(type(error), error, frames)
    return "".join(f"{written(shortened(piece.rstrip(chr(10)), _LONGEST_PRINTED))}\n" for piece in pieces)
