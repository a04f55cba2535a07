"""Compare the collectives that graphs call below Dynamo, where the log of each rank has a record of them.

DTensor and FSDP put their collectives there. A cache can keep a record out of the log of one rank: what is missing is
not compared, and never a difference.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from msgspec.structs import replace

from ctrace.inspector.features.compare.rank_summary import Apart, Digest, Places, Summary, SummaryRecords
from ctrace.inspector.features.compare.record_content import SOURCES, RankItem, communicated
from ctrace.inspector.log.folders import LogFile, opened_log
from ctrace.inspector.log.reader import Broken

_Place = tuple[str, str]
"""A compilation, and the kind of a record in it."""


def with_lowered_collectives(summaries: Iterable[Summary]) -> list[Summary]:
    """Add collectives below Dynamo's graph to the digests that are compared.

    A rank that lacks a record gets the digest that most ranks with the record have.
    """
    summaries = list(summaries)
    usual = {place: _usual(found) for place, found in _by_place(summaries).items()}
    return [_with_usual(each, usual) for each in summaries]


def _by_place(summaries: list[Summary]) -> dict[_Place, Counter[tuple[str, ...]]]:
    found: dict[_Place, Counter[tuple[str, ...]]] = {}
    for each in summaries:
        for one in each.compilations:
            for kind, digests in one.communicated.items():
                found.setdefault((one.id, kind), Counter())[digests] += 1
    return found


def _usual(found: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    """Return what most ranks recorded, of those with the most records: with fewer, one is missing."""
    most = max(map(len, found))
    return max((digests for digests in found if len(digests) == most), key=lambda digests: found[digests])


def _with_usual(summary: Summary, usual: dict[_Place, tuple[str, ...]]) -> Summary:
    compilations, missing = [], set()
    for one in summary.compilations:
        calls = []
        for kind in SOURCES:
            expected = usual.get((one.id, kind), ())
            own = one.communicated.get(kind, ())
            if len(own) < len(expected):
                if any(expected):
                    missing.add((one.id, kind))
                own = expected
            calls.append(f"{kind}\0{chr(0).join(own)}" if any(own) else "")
        compilations.append(_with_calls(one, calls) if any(calls) else replace(one, communicated={}))
    return replace(summary, compilations=tuple(compilations), unrecorded=frozenset(missing))


def _with_calls(one: Digest, calls: list[str]) -> Digest:
    text = "\n".join((one.digests.get(Apart.COLLECTIVE, ""), *calls))
    whole = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return replace(one, digests={**one.digests, str(Apart.COLLECTIVE): whole}, communicated={})


Calls = dict[str, list[list[RankItem]]]
"""The collectives of each record, by the record's kind."""


def calls_in(log: LogFile, compile_id: str) -> Calls:
    """Return the collectives that the last attempt of a compilation recorded below Dynamo's graph.

    Raises:
        RunError: the log cannot be read, or its parts cannot be joined.
    """
    found = calls_by_compilation(log).get(compile_id, {})
    return {kind: sorted(calls, key=lambda each: [one.same for one in each]) for kind, calls in found.items()}


def calls_by_compilation(log: LogFile) -> dict[str, Calls]:
    """Return the collectives of each compilation, the records of each kind in the order of the log.

    Raises:
        RunError: the log cannot be read, or its parts cannot be joined.
    """
    places = Places()
    found: dict[str, Calls] = {}
    with opened_log(log) as file:
        for entry in SummaryRecords().wanted(file):
            if isinstance(entry, Broken):
                continue
            places.learn(entry)
            compile_id = places.id_of(entry)
            if compile_id is None:
                continue
            if entry.kind == "dynamo_start":
                found.pop(compile_id, None)
            calls = communicated(entry)
            if calls is not None:
                found.setdefault(compile_id, {}).setdefault(entry.kind, []).append(calls)
    return found


def first_lowered_difference(base: Calls, other: Calls) -> tuple[str, RankItem | None, RankItem | None] | None:
    """Return the first kind of record that both ranks have and that differs, with the first items that do."""
    for kind in SOURCES:
        pairs = base.get(kind, []), other.get(kind, [])
        if not pairs[0] or len(pairs[0]) != len(pairs[1]):
            continue
        for left, right in zip(*pairs, strict=True):
            apart = next((two for two in _in_pairs(left, right) if not _is_same(*two)), None)
            if apart is not None:
                return kind, *apart
    return None


def _in_pairs(left: list[RankItem], right: list[RankItem]) -> Iterator[tuple[RankItem | None, RankItem | None]]:
    yield from zip_longest(left, right)


def _is_same(one: RankItem | None, other: RankItem | None) -> bool:
    return one is not None and other is not None and one.same == other.same
