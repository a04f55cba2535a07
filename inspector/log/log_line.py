"""Format one record of a trace log in torch's structured-trace format, which ctrace's own artifacts use too.

`LOG_SCHEMA` is the version of our own records.
"""

from hashlib import md5
from json import dumps
from threading import get_native_id
from time import localtime, strftime, time
from typing import Any

from ctrace.inspector.facts.wire import Record, payload_of

LOG_SCHEMA = 1
"""The version that this ctrace writes, and the newest that it reads; raise it if an older ctrace could misread the
records.
"""


# Import the functions themselves: the program under capture may replace them in their modules.


def artifact_of(record: Record, context: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """Return the first line and the payload of one of ctrace's records; `context` is as in `artifact`."""
    return artifact(record.KIND, payload_of(record), context)


def artifact(name: str, payload: Any, context: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """Return the record and the payload of one of our own artifacts, `ctrace_<name>`.

    `context` has `frame_id`, `frame_compile_id` and `attempt` if the artifact belongs to a compilation.
    """
    text = dumps(payload, default=str)
    record: dict[str, Any] = {"artifact": {"name": f"ctrace_{name}", "encoding": "json"}, **(context or {})}
    record["has_payload"] = md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return record, text


def record_line(record: dict[str, Any], payload: str | None, source: str, line: int) -> bytes:
    """Return a record as bytes for the log; `source` and `line` are the file and line that logged it."""
    now = time()
    stamp = strftime("%m%d %H:%M:%S", localtime(now))
    prefix = f"V{stamp}.{int(now % 1 * 1e6):06d} {get_native_id()} {source}:{line}]"
    text = f"{prefix} {dumps(record, default=repr)}"
    if payload is not None:
        text += "\n\t" + payload.replace("\n", "\n\t")
    return f"{text}\n".encode("utf-8", "replace")
