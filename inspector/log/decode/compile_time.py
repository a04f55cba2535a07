"""Decode what torch records about its caches, and what ctrace adds to it."""

import re
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from ctrace.inspector.files.typed_json import typed
from ctrace.inspector.log.events import compile_time as ct
from ctrace.inspector.log.events import core as ev
from ctrace.inspector.log.fields import Fields, loaded
from ctrace.inspector.log.reader import Entry
from ctrace.inspector.model.compile_time import CacheLookup, CacheUse, EarlierKey, KeyPart, Outcome, Speed

_LINE = re.compile(r"\[(?P<digest>\w+)\] (?P<name>[^:]+): (?P<text>.*)", re.DOTALL)
"""A component of a key (`FxGraphCachePickler.debug_lines`, _inductor/codecache.py, 2.11 to 2.15)."""
_LONGEST = 400
"""How many letters of a component to keep."""
_LONGEST_GRAPH = 8000
"""The same for the graph's code, which may have millions of letters."""
_TORCHS = {"aotautograd_cache": "aot_autograd", "fx_graph_cache": "fx_graph", "fx_graph_bundled_cache": "fx_graph"}
LOOKUPS = tuple(f"artifact:{prefix}_{each}" for prefix in _TORCHS for each in Outcome)
"""Torch's records, one for each cache look-up."""


def asked(entry: Entry) -> ev.Event:
    """Decode torch's record of a cache look-up; ignore a record that is not JSON, as torch shortens long ones."""
    prefix, _, outcome = entry.kind.removeprefix("artifact:").rpartition("_")
    if entry.stored is not None and (brief := _without_components(entry.payload)) is not None:
        found = CacheLookup(
            cache=_TORCHS[prefix],
            outcome=Outcome(outcome),
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
        outcome=Outcome(outcome),
        graph=entry.compile_id,
        key=data.maybe_text("key"),
        detail=data.maybe_text("cache_status_detailed") or "",
        reason=data.maybe_text("cache_bypass_reason") or "",
        components=_parts(data.maybe_list("components")),
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
        return _parts(Fields(loaded(payload), "the payload").maybe_list("components"))
    except (ValueError, TypeError, RecursionError):
        return ()


def _parts(lines: list[Any]) -> tuple[KeyPart, ...]:
    found = (_LINE.match(line) for line in lines if isinstance(line, str))
    return tuple(KeyPart(each["name"], each["digest"], _cut(each)) for each in found if each is not None)


def _cut(part: re.Match[str]) -> str:
    return part["text"][: _LONGEST_GRAPH if part["name"] == "gm" else _LONGEST]


def precompile_bypassed(entry: Entry) -> ev.Event:
    """Decode torch's record of a function that it cannot store as a precompiled package."""
    reason = ""
    try:
        reason = Fields(loaded(entry.payload), "the payload").maybe_text("_reason") or ""
    except (ValueError, TypeError, RecursionError):  # 2.13 writes no JSON here
        reason = entry.payload[:_LONGEST]
    return ct.CacheAsked(CacheLookup("precompile", Outcome.BYPASS, entry.compile_id, reason=reason))


def ours(entry: Entry) -> ev.Event:
    """Decode our record of a question to a cache of which torch records nothing: Triton's and the autotuner's."""
    data = Fields(loaded(entry.payload), "the payload")
    lookup = CacheLookup(
        cache=data.text("cache"),
        outcome=Outcome(data.text("outcome")),
        graph=entry.compile_id,
        stage=data.maybe_text("stage"),
        key=data.maybe_text("key"),
        reason=data.maybe_text("reason") or "",
        kernel=data.maybe_text("kernel"),
    )
    return ct.CacheAsked(lookup)


def stored(entry: Entry) -> ev.Event:
    """Decode our record of whether torch stored what it compiled."""
    data = Fields(loaded(entry.payload), "the payload")
    why, is_bypass = data.maybe_text("why") or "", data.maybe_flag("bypassed")
    return ct.CacheStored(data.text("cache"), data.text("key"), data.flag("stored"), why, is_bypass)


def keyed(entry: Entry) -> ev.Event:
    """Decode our record of a key's components."""
    data = Fields(loaded(entry.payload), "the payload")
    return ct.CacheKeyed(data.text("cache"), data.text("key"), _parts(list(data.texts("components"))))


def caches(entry: Entry) -> ev.Event:
    """Decode which caches the run could use."""
    return ct.CachesFound(typed(CacheUse, loaded(entry.payload), "the caches"))


def earlier(entry: Entry) -> ev.Event:
    """Decode how a missed key differs from that of an earlier run."""
    return ct.EarlierKeyFound(typed(EarlierKey, loaded(entry.payload), "the earlier key"))


def speed(entry: Entry) -> ev.Event:
    """Decode the comparison of eager with compiled."""
    return ct.SpeedMeasured(typed(Speed, loaded(entry.payload), "the speed"))
