"""Decode the first line of a record: the event, and the compilation that it belongs to.

Each kind of event gets a typed decoder, which checks all of the line and builds objects only of what is asked for. What
a typed decoder refuses is decoded as any JSON, so that a damaged line is described in the same way for all kinds.
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ctrace.inspector.log.reading_limits import refuse_many_values

_CONTEXT = frozenset(
    ("rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "subgraph_name")
)
# No rank, frame or attempt is as large; such a number is damage.
_MOST = 2**31
# Each kind gets a decoder that is kept; torch has far fewer kinds, but a damaged log may name any number.
_MOST_KINDS = 500
_KIND = re.compile(rb"[A-Za-z_]\w{0,99}")
_Number = Annotated[int, Meta(ge=0, lt=_MOST)]
_decode = msgspec.json.Decoder().decode


class Context(Struct):
    """Where an event belongs, as its record says."""

    frame_id: int | str | None = None
    frame_compile_id: int | None = None
    attempt: int | None = None
    has_payload: Any = None
    """The checksum of the payload, as hexadecimal digits."""


class _Record(Context, forbid_unknown_fields=True):
    """The first line of a record; subclasses add the event, which torch writes first (trace_structured, 2.11)."""

    frame_id: _Number | None = None
    frame_compile_id: _Number | None = None
    attempt: _Number | None = None
    rank: Any = None
    compiled_autograd_id: Any = None
    stack: msgspec.Raw | None = None
    subgraph_name: Any = None


Header = tuple[str, Any, Context, bool]
"""What the first line of a record says: kind, data and place of the event, and whether it has bytes that are not text
(torch writes ASCII there). A plain tuple, because making one with names takes a tenth of the time for a record."""


class Headers:
    """Decodes first lines."""

    def __init__(self, type_of: Callable[[str], Any] | None = None) -> None:
        """Decode the data of each kind of event to the type that `type_of` returns, by default to dicts and lists."""
        self._type_of = type_of
        self._decoders: dict[bytes, tuple[str, Callable[[bytes], Any]] | None] = {}
        """By kind; None: the kind has no typed decoder."""

    def read(self, text: bytes) -> Header:
        """Decode a JSON object that starts with a brace.

        Raises:
            ValueError: it is not the first line of a record; the message says why.
        """
        refuse_many_values(text)
        # Torch writes the event first, so its name follows `{"`; what does not is decoded as any JSON.
        kind = text[2 : text.find(b'"', 2)]
        try:
            typed = self._decoders[kind]
        except KeyError:
            typed = self._decoder(kind)
        if typed is not None and text.isascii():  # a decoder does not check whether what it skips is text
            try:
                found = typed[1](text)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                pass
            else:
                return typed[0], found.event, found, False
        return _any(text)

    def _decoder(self, kind: bytes) -> tuple[str, Callable[[bytes], Any]] | None:
        """Make the decoder of a kind; a damaged log may have any number of kinds."""
        name = kind.decode("utf-8", "replace")
        # A name of the context as an event would clash with the field of the same name.
        if len(self._decoders) >= _MOST_KINDS or name in _CONTEXT or not _KIND.fullmatch(kind):
            return None
        if self._type_of is None:
            type_ = Any
        else:
            type_ = self._type_of(name)
        found = self._decoders[kind] = (name, _typed(name, type_))
        return found


@lru_cache(maxsize=_MOST_KINDS)
def _typed(name: str, type_: Any) -> Callable[[bytes], Any]:
    """Return the decoder of the first lines of a kind."""
    record = msgspec.defstruct("_Typed", [("event", type_)], bases=(_Record,), rename={"event": name}, kw_only=True)
    return msgspec.json.Decoder(record).decode


def _any(text: bytes) -> Header:
    """Decode the first line of a record of any kind.

    Raises:
        ValueError: it is not the first line of a record; the message says why.
    """
    try:
        record, has_odd_bytes = _object(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"unreadable JSON ({error!s:.300})") from None
    names = [name for name in record if name not in _CONTEXT]
    if not names:
        raise ValueError("a record without an event")
    if not all(_is_number(record.get(name)) for name in ("frame_id", "frame_compile_id", "attempt")):
        raise ValueError(f"impossible numbers of a compilation ({names[0]!r:.80})")
    context = Context(*(record.get(name) for name in Context.__struct_fields__))
    return names[0], record[names[0]], context, has_odd_bytes


def _object(text: bytes) -> tuple[dict[str, Any], bool]:
    """Decode a JSON object that starts with a brace; return whether it has bytes that are not text, too.

    Raises:
        ValueError, RecursionError: it cannot be read.
    """
    try:
        return _decode(text), False
    except (ValueError, RecursionError):
        decoded = text.decode("utf-8", "replace")
        return json.loads(decoded), "\ufffd" in decoded  # also takes NaN


def _is_number(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < _MOST)
