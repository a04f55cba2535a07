"""The policy's `limits` and `allow`: how much of each count passes, and which sites do."""

import re
from collections.abc import Mapping

from ctrace.inspector.gate.policy.model import Allow, Count, Limits
from ctrace.inspector.gate.policy.values import any_table, day, entries, name, percent, size, table, text, whole
from ctrace.inspector.gate.policy.yaml_nodes import Node, wrong
from ctrace.inspector.gpus.yaml_file import shown
from ctrace.inspector.model.findings import Owner

_BREAKS = {Owner.USER: Count.BREAKS, Owner.LIBRARY: Count.LIBRARY_BREAKS, Owner.TORCH: Count.TORCH_BREAKS}
_COVERAGE = "coverage"
_BY_OWNER = {_BREAKS[owner]: f"breaks: {{{owner}: 0}}" for owner in (Owner.LIBRARY, Owner.TORCH)}
"""Counts that a policy writes by owner."""
_COUNTS = tuple(each for each in Count if each not in _BREAKS.values())
_ALLOW = ("gb", "place", "text", "reason", "expires")
_GB = re.compile(r"GB[0-9]{1,9}", re.IGNORECASE)


def limits(node: Node) -> Limits:
    """Read limits: those of the whole policy, or a model's.

    Raises:
        PolicyError: a key or a number is wrong.
    """
    for key, child in any_table(node).items():
        if key in _BY_OWNER:
            raise wrong(child, f"limits knows no key {key}", f"write it as {_BY_OWNER[Count(key)]}")
    keys = table(node, (Count.BREAKS, *_COUNTS, _COVERAGE))
    most = {count: _most(count, keys[count]) for count in _COUNTS if count in keys}
    breaks = _breaks(keys[Count.BREAKS]) if Count.BREAKS in keys else {}
    return Limits({**breaks, **most}, percent(keys[_COVERAGE]) if _COVERAGE in keys else None)


def _most(count: Count, node: Node) -> int:
    return size(node) if count is Count.MISSED_BYTES else whole(node)


def _breaks(node: Node) -> Mapping[Count, int]:
    """Read the limit of breaks: a number is that of the user's own."""
    if not isinstance(node.value, dict):
        return {Count.BREAKS: whole(node)}
    keys = table(node, _BREAKS)
    return {_BREAKS[Owner(owner)]: whole(child) for owner, child in keys.items()}


def allow(node: Node) -> tuple[Allow, ...]:
    """Read the sites that pass.

    Raises:
        PolicyError: an entry says too little, or something wrong.
    """
    return tuple(_entry(each) for each in entries(node))


def _entry(node: Node) -> Allow:
    keys = table(node, _ALLOW)
    if not {"gb", "place", "text"} & set(keys):
        todo = "add gb: GB0170, place: file.py::Class.method or text: a part of the line"
        raise wrong(node, "this entry of allow names no site", todo)
    if "reason" not in keys:
        todo = "add reason: and in a few words why these sites may stay"
        raise wrong(node, "this entry of allow has no reason", todo)
    return Allow(
        reason=text(keys["reason"]),
        gb=_gb(keys["gb"]) if "gb" in keys else None,
        place=name(keys["place"]) if "place" in keys else None,
        text=text(keys["text"]) if "text" in keys else None,
        expires=day(keys["expires"]) if "expires" in keys else None,
        line=node.line,
    )


def _gb(node: Node) -> str:
    written = name(node)
    if not _GB.fullmatch(written):
        raise wrong(node, f"{shown(written)} is no gb id", "write it as ctrace breaks shows it, such as GB0170")
    return written.upper()
