"""The trace log that a capture writes: torch's structured-trace format, with our own artifacts in between."""

import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any


class TraceLog:
    """An append-only log; a record is on its way to the disk when `write` returns, so a crash loses nothing.

    Records of forked children land in the same file: each is one `write` to a descriptor opened for appending.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._failed = False

    def close(self) -> None:
        """Close the file; later records are dropped."""
        os.close(self._descriptor)
        self._descriptor = -1

    def artifact(self, name: str, payload: Any, context: dict[str, Any] | None = None) -> None:
        """Write one of our own records: artifact `ctrace_<name>` with a JSON payload.

        `context` holds `frame_id`, `frame_compile_id` and `attempt` for what belongs to a compilation.
        """
        text = json.dumps(payload, default=str)
        record: dict[str, Any] = {"artifact": {"name": f"ctrace_{name}", "encoding": "json"}, **(context or {})}
        record["has_payload"] = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
        self.write(record, text, "ctrace", 0)

    def write(self, record: dict[str, Any], payload: str | None, source: str, line: int) -> None:
        """Append one record; `source` and `line` say which code wrote it."""
        if self._descriptor < 0:
            return
        now = time.time()
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now))
        prefix = f"V{stamp}.{int(now % 1 * 1e6):06d} {threading.get_native_id()} {source}:{line}]"
        text = f"{prefix} {json.dumps(record, default=repr)}"
        if payload is not None:
            text += "\n\t" + payload.replace("\n", "\n\t")
        self._append(f"{text}\n".encode("utf-8", "replace"))

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
