"""Tell an edit of a log from damage, by the form of a payload that does not match its checksum.

An edit, such as a redaction, replaces words: text stays text, JSON stays JSON, and each record keeps its own lines.
Damage loses, adds or moves bytes wherever they are, so it leaves half of something: of a letter, of JSON, of the first
line of another record. How many payloads do not match says nothing: of a cold compile, few contain a name.
"""

import json
import re
from enum import Enum, auto
from typing import Any

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder

from ctrace.inspector.log.framing import payload_of


class Form(Enum):
    """The form of a payload."""

    TEXT = auto()
    JSON = auto()


_HALVES = re.compile(
    rb'"(?:has_payload|frame_id|frame_compile_id|attempt)": [^\n,{}]{1,40}\}$'
    rb'|[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{1,9} \d{1,20} [^\n]{1,300}:\d{1,9}\] \{"',
    re.MULTILINE,
)
"""The end and the beginning of a record's first line (torch/_logging/_internal.py, 2.6 to 2.13)."""
_check = Decoder(Raw).decode


def form_of(kind: str, data: Any, raw: bytes) -> Form | None:
    """Return the form of a changed payload; None: it is damaged.

    Args:
        kind: The event.
        data: Its data; an artifact's names an encoding.
        raw: The lines of the payload.
    """
    text = payload_of(raw)
    if not raw or b"\0" in text or not _is_text(text):
        return None
    # An artifact of JSON may be a bare string (`recompile_reasons`, torch 2.13, _dynamo/guards.py:5400).
    is_json = kind == "chromium_event" or (isinstance(data, dict) and data.get("encoding") == "json")
    if is_json and text.lstrip().startswith((b"{", b"[")):
        return Form.JSON if _is_json(text) else None
    return None if kind == "chromium_event" or _HALVES.search(text) else Form.TEXT


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(text: bytes) -> bool:
    try:
        _check(text)
    except (MsgspecError, RecursionError):
        try:
            json.loads(text)  # also takes NaN
        except (ValueError, RecursionError):
            return False
    return True
