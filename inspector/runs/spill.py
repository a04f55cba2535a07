"""Send a log through a pipe if the disk refuses it, in frames that concurrent writers cannot split."""

import os
import select
import struct
import threading
from collections.abc import Iterator

_HEAD = struct.Struct("<QQH?")
"""A frame's header: process, thread, length, and whether the record ends with this frame."""
_MOST = getattr(select, "PIPE_BUF", 512) - _HEAD.size
"""The most bytes of a record in one frame: pipe writes of up to PIPE_BUF bytes are atomic (POSIX, write)."""


def framed(data: memoryview) -> Iterator[bytes]:
    """Split a record into frames; write each frame with one call."""
    process, thread = os.getpid(), threading.get_native_id()
    for begin in range(0, len(data), _MOST):
        chunk = data[begin : begin + _MOST]
        yield _HEAD.pack(process, thread, len(chunk), begin + _MOST >= len(data)) + chunk


class Unframer:
    """Reassembles records that processes and threads wrote concurrently."""

    def __init__(self) -> None:
        self._data = b""
        self._partial: dict[tuple[int, int], bytearray] = {}

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add data from the pipe, and yield each record that it completes."""
        self._data += data
        at = 0
        while len(self._data) - at >= _HEAD.size:
            process, thread, length, is_last = _HEAD.unpack_from(self._data, at)
            end = at + _HEAD.size + length
            if end > len(self._data):
                break
            record = self._partial.setdefault((process, thread), bytearray())
            record += self._data[at + _HEAD.size : end]
            if is_last:
                yield bytes(self._partial.pop((process, thread)))
            at = end
        self._data = self._data[at:]
