"""Compare the guards of matched graphs by kind, value and check, without ids of objects."""

import re
from collections.abc import Iterator
from pathlib import PurePath

from msgspec.structs import replace

from ctrace.inspector.facts.guards import Guard
from ctrace.inspector.features.compare.diff.changes import Change, How, What, edited
from ctrace.inspector.features.compare.diff.graphs import Pairs, RunGraph
from ctrace.inspector.features.compare.diff.nodes import without_numbers
from ctrace.inspector.findings.graphs.text.scan import pieces
from ctrace.inspector.findings.guards.printed_tree import parse
from ctrace.inspector.findings.guards.view import about
from ctrace.inspector.findings.site_matching import paired

_ID = re.compile(r"(?<![.\d])\d{8,}(?!\d)|0x[0-9a-f]+")
"""Addresses and ids of objects: no two processes have the same ones."""
_MANY = 3


def guard_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the guards that only one of two matched graphs has, and those that check another value."""
    for old, new in pairs.both:
        yield from _between(old, new)


def are_recorded(pairs: Pairs) -> bool:
    """Whether any matched graph has its guards in both logs."""
    return any(_guards(old) is not None and _guards(new) is not None for old, new in pairs.both)


def _guards(seen: RunGraph) -> list[Guard] | None:
    printed = seen.session.guards.get(seen.graph.id)
    if printed is None:
        return None
    found = parse(printed, seen.session.environment.prefixes).all_guards()
    return [replace(each, code=without_module(each.code, seen.graph.file)) for each in found]


def without_module(code: str, file: str) -> str:
    """Name classes of a file without its module: another name of the file is no other class."""
    here = PurePath(file).with_suffix("").parts

    def outside(module: re.Match[str]) -> str:
        parts = tuple(module[0].split(".")[:-1])
        return "" if here[-len(parts) :] == parts else module[0]

    return re.sub(r"(?<=<class ')(?:\w+\.)+", outside, code)


def _between(old: RunGraph, new: RunGraph) -> Iterator[Change]:
    olds, news = _guards(old), _guards(new)
    if olds is None or news is None:
        return
    _, only_new, only_old = paired(news, olds, lambda guard: (guard.kind, guard.source, content(guard)))
    both, added, removed = paired(only_new, only_old, lambda guard: (guard.kind, guard.source))
    for guard in removed:
        yield Change(What.GUARD, How.REMOVED, old.where, was=_text(guard))
    for guard, before in both:
        yield edited(What.GUARD, new.where, *_differing(before, guard))
    for guard in added:
        yield Change(What.GUARD, How.ADDED, new.where, now=_text(guard))


def content(guard: Guard) -> str:
    """Return a guard's check without the parts that differ between processes or when code moves."""
    return _ID.sub("#", without_numbers(guard.code))


def _differing(before: Guard, guard: Guard) -> tuple[str, str]:
    """Write two versions of a guard; for a check with many arguments, only those that differ."""
    was, now = pieces(content(before)), pieces(content(guard))
    if len(was) != len(now) or len(was) < _MANY:
        calls = [_arguments(content(each)) for each in (before, guard)]
        was, now = pieces(calls[0]), pieces(calls[1])
    if len(was) != len(now) or len(was) < _MANY:
        return _text(before), _text(guard)
    other = [(one, two) for one, two in zip(was, now, strict=True) if one != two]
    name = about(guard) or guard.kind
    return f"{name}: {', '.join(one for one, _ in other)}", f"{name}: {', '.join(two for _, two in other)}"


def _arguments(code: str) -> str:
    """Return what is between the parentheses of a call; the whole text if it is not a call."""
    at = code.find("(")
    return code[at + 1 : -1] if at > 0 and code.endswith(")") else code


def _text(guard: Guard) -> str:
    name = about(guard)
    return f"{name}: {content(guard)}" if name and name not in guard.code else content(guard)
