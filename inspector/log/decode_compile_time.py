"""Decode what torch records about its caches, and what ctrace adds to it."""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from ctrace.inspector.facts import compile_time as ct
from ctrace.inspector.facts import run_events as ev
from ctrace.inspector.facts.compile_time import CacheLookup, KeyPart, LookupOutcome
from ctrace.inspector.log.fields import Fields, loaded
from ctrace.inspector.log.reader import LogEntry

_LINE = re.compile(r"\[(?P<digest>\w+)\] (?P<name>[^:]+): (?P<text>.*)", re.DOTALL)
"""A component of a key (`FxGraphCachePickler.debug_lines`, _inductor/codecache.py, 2.11 to 2.15)."""
_LONGEST = 400
"""How many letters of a component to keep."""
_LONGEST_GRAPH = 8000
"""The same for the graph's code, which may have millions of letters."""
_TORCHS = {"aotautograd_cache": "aot_autograd", "fx_graph_cache": "fx_graph", "fx_graph_bundled_cache": "fx_graph"}
LOOKUPS = tuple(f"artifact:{prefix}_{each}" for prefix in _TORCHS for each in LookupOutcome)
"""Torch's records, one for each cache look-up."""


def asked(entry: LogEntry) -> ev.Event:
    """Decode torch's record of a cache look-up; ignore a record that is not JSON, as torch shortens long ones."""
    prefix, _, outcome = entry.kind.removeprefix("artifact:").rpartition("_")
    # Only if the log is there to read the components later, for the one view that compares keys.
    if entry.stored is not None and (brief := _without_components(entry.payload)) is not None:
        found = CacheLookup(
            cache=_TORCHS[prefix],
            outcome=LookupOutcome(outcome),
            graph=entry.compile_id,
            key=brief.key,
            detail=brief.cache_status_detailed or "",
            reason=brief.cache_bypass_reason or "",
            record=entry.stored,
        )
        return ct.CacheAsked(found)
    try:
        data = Fields(loaded(entry.payload), "the payload")
    except (ValueError, TypeError, RecursionError):
        return ev.Ignored()
    lookup = CacheLookup(
        cache=_TORCHS[prefix],
        outcome=LookupOutcome(outcome),
        graph=entry.compile_id,
        key=data.maybe_text("key"),
        detail=data.maybe_text("cache_status_detailed") or "",
        reason=data.maybe_text("cache_bypass_reason") or "",
        components=parts_of(data.maybe_list("components")),
    )
    return ct.CacheAsked(lookup)


class _Brief(Struct):
    """The fields of a look-up without its components, of which there may be hundreds of kilobytes."""

    key: str | None = None
    cache_status_detailed: str | None = None
    cache_bypass_reason: str | None = None


_decode_brief = Decoder(_Brief).decode


def _without_components(payload: str) -> _Brief | None:
    """Decode a look-up without its components; None: it is not as expected."""
    try:
        return _decode_brief(payload)
    except (DecodeError, UnicodeError, RecursionError):
        return None


def components_in(payload: str) -> tuple[KeyPart, ...]:
    """Return the components of a key from torch's record of a look-up; empty: it has none, or is cut short."""
    try:
        return parts_of(Fields(loaded(payload), "the payload").maybe_list("components"))
    except (ValueError, TypeError, RecursionError):
        return ()


def parts_of(lines: Iterable[Any]) -> tuple[KeyPart, ...]:
    """Return the components of a key from torch's lines about them."""
    found = (_LINE.match(line) for line in lines if isinstance(line, str))
    return tuple(KeyPart(each["name"], each["digest"], _cut(each)) for each in found if each is not None)


def _cut(part: re.Match[str]) -> str:
    # The graph's code is what most often differs, and a first difference may be far inside.
    return part["text"][: _LONGEST_GRAPH if part["name"] == "gm" else _LONGEST]


def precompile_bypassed(entry: LogEntry) -> ev.Event:
    """Decode torch's record of a function that it cannot store as a precompiled package."""
    reason = ""
    try:
        reason = Fields(loaded(entry.payload), "the payload").maybe_text("_reason") or ""
    except (ValueError, TypeError, RecursionError):  # 2.13 writes no JSON here
        reason = entry.payload[:_LONGEST]
    return ct.CacheAsked(CacheLookup("precompile", LookupOutcome.BYPASS, entry.compile_id, reason=reason))
