"""Values of a call in words: numbers and the like as Python writes them, of any other object what kind it is."""

from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

_SHORT = 200
_LITERALS = (bool, int, float, complex, str, bytes, type(None), type(...))
_CONTAINERS = (tuple, list, set, frozenset)


def shown(code: str, value: Any, *, like: Any = None) -> str:
    """Write the value that a guard `code` is about; `like` is what it is compared with, where it is.

    Of a container that should be empty it gives the length. What has a class of its own is not asked how to write it.
    """
    if code.startswith("___check_type_id"):
        return class_name(type(value))
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if type(value) in _LITERALS:
        return repr(value)[:_SHORT]
    if code.startswith("not ") and "(" not in code and hasattr(value, "__len__"):
        return str(len(value))
    if code.startswith("___check_obj_id") or "CURRENT_DEVICE" in code:
        return named(value)
    if type(value) is type(like) and _is_plain(value):
        return repr(value)[:_SHORT]
    return class_name(type(value))


def named(value: Any) -> str:
    """Name an object that stands for itself: a function by its place, a class by its name, else by its class."""
    code = getattr(value, "__code__", None) if isinstance(value, FunctionType) else value
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
    """Name a class with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_plain(value: Any) -> bool:
    """Whether a value is of classes that are known all the way down, so that writing it runs no code of the user's."""
    if type(value) in _CONTAINERS:
        return len(value) <= _SHORT and all(map(_is_plain, value))
    return type(value) in (*_LITERALS, range, slice) or _is_torchs(value)


def _is_torchs(value: Any) -> bool:
    """Whether it is a dtype, device or layout, or a size."""
    import torch

    return isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format | torch.Size)
