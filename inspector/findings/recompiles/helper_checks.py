"""Classify guards that call one of torch's helpers: iterators, copy-on-write tensors, the current stream.

The texts are those of _dynamo/guards.py: the helpers for iterators since 2.11, for copy-on-write since 2.14,
for reversed lists and streams since 2.15.
"""

import re

from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.source.source_names import user_name

ITERATOR = re.compile(r"___(?P<what>tuple_iterator_len|list_reverseiterator_len)\((?P<source>.+)\) == (?P<was>\d+)$")
_POSITION = re.compile(r"___normalize_(?:range|count)_iter\((?P<source>.+)\) == (?P<was>.+)$")
_LAZY_COPY = re.compile(r"___cow_tensor_matches\((?P<source>.+), (?P<was>True|False)\)$")
_STREAM = re.compile(r"(?P<source>.+) (?P<op>==|!=) ___get_current_stream\(.*\)$")
POSITION = "position of "
LAZY_COPY = " is a lazy copy"
STREAM = " is the current stream"


def helper_check(text: str, now: str | None) -> Cause | None:
    """Classify a guard that calls one of these helpers; return None for any other guard."""
    if match := ITERATOR.match(text):
        return Cause(CauseKind.LENGTH, f"items left in {user_name(match['source'])}", match["was"], now)
    if match := _POSITION.match(text):
        return Cause(CauseKind.ARGUMENT_VALUE, f"{POSITION}{user_name(match['source'])}", match["was"], now)
    if match := _LAZY_COPY.match(text):
        return _flag(CauseKind.OTHER, f"{user_name(match['source'])}{LAZY_COPY}", match["was"] == "True")
    if match := _STREAM.match(text):
        return _flag(CauseKind.GLOBAL_STATE, f"{user_name(match['source'])}{STREAM}", match["op"] == "==")
    return None


def _flag(kind: CauseKind, subject: str, was: bool) -> Cause:
    return Cause(kind, subject, str(was), str(not was))
