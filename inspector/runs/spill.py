"""How a log travels through a pipe where the disk does not take it: in frames that no other writer can cut in two."""

import os
import select
import struct
import threading
from collections.abc import Iterator

_HEAD = struct.Struct("<QQH?")
"""Of a frame: its process, its thread, its length, and whether the record ends with it."""
_MOST = getattr(select, "PIPE_BUF", 512) - _HEAD.size
"""Bytes of a record in one frame: pipes keep writes of up to PIPE_BUF bytes together (POSIX, write)."""


def framed(data: memoryview) -> Iterator[bytes]:
    """Cut a record into frames, each to be written by one call."""
    process, thread = os.getpid(), threading.get_native_id()
    for begin in range(0, len(data), _MOST):
        chunk = data[begin : begin + _MOST]
        yield _HEAD.pack(process, thread, len(chunk), begin + _MOST >= len(data)) + chunk


class Unframer:
    """Puts records together again; processes and threads may have written at the same time."""

    def __init__(self) -> None:
        self._data = b""
        self._begun: dict[tuple[int, int], bytearray] = {}

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what the pipe gave, and yield each record that is complete."""
        self._data += data
        at = 0
        while len(self._data) - at >= _HEAD.size:
            process, thread, length, is_last = _HEAD.unpack_from(self._data, at)
            end = at + _HEAD.size + length
            if end > len(self._data):
                break
            record = self._begun.setdefault((process, thread), bytearray())
            record += self._data[at + _HEAD.size : end]
            if is_last:
                yield bytes(self._begun.pop((process, thread)))
            at = end
        self._data = self._data[at:]
