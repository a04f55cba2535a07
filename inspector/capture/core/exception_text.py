"""Read the text of an exception from user code, and format the values of its calls, without trusting either.

A `__str__` may raise, or return tens of megabytes or no string; a metaclass may lie about the name; a message may
contain lone surrogates, which UTF-8 cannot encode. So of values (`shown`), only plain ones are written as Python writes
them, other objects by their class.
"""

import traceback
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, TracebackType
from typing import Any

LONGEST = 100_000
"""How many characters of a message the log keeps; the rest is counted."""
NO_MESSAGE = "no message"
"""What is recorded as the message of an exception that has none."""
# Chosen: a piece of a traceback is a few lines; the text of an exception can have any length.
_LONGEST_PRINTED = 10_000


def type_name(error: BaseException) -> str:
    """Return the qualified name of an exception's class, even if a metaclass overrides `__qualname__`."""
    name = type.__dict__["__qualname__"].__get__(type(error))
    if isinstance(name, str):
        return written(name)
    return "exception"


def message(error: BaseException) -> str:
    """Return an exception's message, or why it cannot be read; never raise."""
    try:
        return shortened(written(str(error)), LONGEST)
    except Exception as why:
        return f"<its __str__ raises {type_name(why)}>"


def kind_and_message(error: BaseException) -> str:
    """Return an exception's type and message: `ValueError: no such luck`."""
    return f"{type_name(error)}: {message(error)}"


def reason_line(error: BaseException, most: int = 200) -> str:
    """Return the first line of an exception's message, or its type if it has none, for a table of reasons."""
    return message(error).strip().partition("\n")[0][:most] or type_name(error)


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
    if left <= 0:
        return text
    return f"{text[:most]}… ({left:,} more characters)"


def traceback_text(error: BaseException, frames: TracebackType | None) -> str:
    """Format a traceback as Python does, cutting each piece that is too long."""
    pieces = traceback.format_exception(type(error), error, frames)
    return "".join(f"{written(shortened(piece.rstrip(chr(10)), _LONGEST_PRINTED))}\n" for piece in pieces)


# Chosen: what is shown of a value in a sentence; calling `repr` on a large one is avoided where its size is known.
_SHORT = 200
_LITERALS = (bool, int, float, complex, str, bytes, type(None), type(...))
_CONTAINERS = (tuple, list, set, frozenset)


def shown(code: str, value: Any, *, like: Any = None) -> str:
    """Format the value that the guard `code` checks; `like` is the value that it is compared with, if any.

    A container that should be empty is shown by its length. The `repr` of a user-defined class is never called.
    """
    # e.g. `___check_type_id(L['x'], 94112)`: what differs is the class.
    if code.startswith("___check_type_id"):
        return class_name(type(value))
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    # The exact type: a subclass of `int` or `str` may have a `repr` of the user's.
    if type(value) in _LITERALS:
        return repr(value)[:_SHORT]
    # e.g. `not L['self'].caches`: the container has items now. A call, as in `not hasattr(...)`, has no length.
    if code.startswith("not ") and "(" not in code and hasattr(value, "__len__"):
        return str(len(value))
    # e.g. `___check_obj_id(L['f'], 7532)`, `utils_device.CURRENT_DEVICE == None`: compared by identity, so a name says
    # more than the value.
    if code.startswith("___check_obj_id") or "CURRENT_DEVICE" in code:
        return named(value)
    if type(value) is type(like) and _is_plain(value):
        return repr(value)[:_SHORT]
    return class_name(type(value))


def named(value: Any) -> str:
    """Return a name for an object: a function by its place, a class by its name, any other object by its class."""
    if isinstance(value, FunctionType):
        code = getattr(value, "__code__", None)
    else:
        code = value
    if isinstance(code, CodeType):
        return f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if _is_torchs(value):
        return str(value)
    if isinstance(value, type | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"[:_SHORT]
    return class_name(type(value))


def class_name(kind: type) -> str:
    """Return the name of a class with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_plain(value: Any) -> bool:
    """Whether a value consists of known classes all the way down, so that its `repr` runs no user code."""
    # A longer one would be cut anyway, and its `repr` takes long.
    if type(value) in _CONTAINERS:
        return len(value) <= _SHORT and all(map(_is_plain, value))
    return type(value) in (*_LITERALS, range, slice) or _is_torchs(value)


def _is_torchs(value: Any) -> bool:
    """Whether a value is a torch dtype, device, layout or size."""
    import torch

    return isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format | torch.Size)
