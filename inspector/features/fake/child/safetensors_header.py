"""Read the header of a safetensors file: names, dtypes and shapes, without a value."""

import json
from pathlib import Path
from typing import Any

from ctrace.inspector.errors import TargetError

_LONGEST = 100_000_000
"""The limit of safetensors itself, in bytes."""
_METADATA = "__metadata__"
_LENGTH = 8
"""A file begins with the length of its header, in 8 bytes, little-endian."""
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Torch's names of the dtypes (safetensors 0.8, torch.py: `_TYPES`)."""


def header_of(file: Path) -> dict[str, tuple[str, list[int]]]:
    """Return the dtype and shape of each tensor in a file, by name.

    Raises:
        TargetError: the file cannot be read, or its header is damaged.
    """
    try:
        return {
            name: (str(each["dtype"]), [int(size) for size in each["shape"]])
            for name, each in _data(file).items()
            if name != _METADATA
        }
    except (ValueError, KeyError, TypeError):
        raise _wrong(file) from None


def metadata_of(file: Path) -> dict[str, str]:
    """Return what the one who wrote a file said about it."""
    found = _data(file).get(_METADATA) or {}
    if not isinstance(found, dict):
        raise _wrong(file)
    return {str(name): str(value) for name, value in found.items()}


def _data(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH), "little")
            if not 0 < length <= min(_LONGEST, file.stat().st_size - _LENGTH):
                raise _wrong(file)
            data = json.loads(stream.read(length))
    except OSError as error:
        raise TargetError(f"{file} cannot be read: {error.strerror}", "check its name and its permissions") from None
    except (ValueError, RecursionError):
        raise _wrong(file) from None
    if not isinstance(data, dict):
        raise _wrong(file)
    return data


def _wrong(file: Path) -> TargetError:
    return TargetError(f"{file} has no safetensors header", "replace the file, or remove it: only its shapes are read")
