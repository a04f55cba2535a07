"""Read the text of an exception from user code, without trusting it.

Its `__str__` may raise, or return tens of megabytes or no string; its metaclass may lie about the name; a message may
contain lone surrogates, which UTF-8 cannot encode.
"""

import traceback
from types import TracebackType
from typing import Any

LONGEST = 100_000
"""How many characters of a message the log keeps; the rest is counted."""
NO_MESSAGE = "no message"
"""What is recorded as the message of an exception that has none."""
_LONGEST_PRINTED = 10_000


def type_name(error: BaseException) -> str:
    """Return the qualified name of an exception's class, even if a metaclass overrides `__qualname__`."""
    name = type.__dict__["__qualname__"].__get__(type(error))
    return written(name) if isinstance(name, str) else "exception"


def message(error: BaseException) -> str:
    """Return an exception's message, or why it cannot be read; never raise."""
    try:
        return shortened(written(str(error)), LONGEST)
    except Exception as why:
        return f"<its __str__ raises {type_name(why)}>"


def kind_and_message(error: BaseException) -> str:
    """Return an exception's type and message: `ValueError: no such luck`."""
    return f"{type_name(error)}: {message(error)}"


def text_of(value: Any) -> str:
    """Return any object, such as an exit code, as text; never raise."""
    try:
        return shortened(written(str(value)), LONGEST)
    except Exception as why:
        return f"<a {type(value).__name__} whose __str__ raises {type_name(why)}>"


def written(text: str) -> str:
    """Escape what UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(text: str, most: int) -> str:
    """Cut a text that is too long, and append the number of missing characters."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}… ({left:,} more characters)"


def traceback_text(error: BaseException, frames: TracebackType | None) -> str:
    """Format a traceback as Python does, cutting each piece that is too long."""
    pieces = traceback.format_exception(type(error), error, frames)
    return "".join(f"{written(shortened(piece.rstrip(chr(10)), _LONGEST_PRINTED))}\n" for piece in pieces)
