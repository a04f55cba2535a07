"""Compare the ranks of a job: read their summaries, group the ranks that agree, find the first divergence.

1. Each rank's log is folded to a summary, digests of what it compiled, and ranks with equal ones are a group.
2. The collectives that graphs call below Dynamo are compared where the log of each rank has a record of them: DTensor
   and FSDP put theirs there. A cache can keep a record out of the log of one rank: what is missing is not compared, and
   never a difference.
3. To show how two ranks differ, what each recorded about that one compilation is read again.

The compile steps of one rank are read for a time line over all ranks.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.run_events import SpanMarked
from ctrace.inspector.features.compare.rank_summary import (
    Apart,
    Digest,
    Places,
    Summary,
    SummaryRecords,
    summary_of,
)
from ctrace.inspector.features.compare.record_content import SOURCES, RankItem, communicated, items_of
from ctrace.inspector.findings.compile_time_fold import Timeline, timeline
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import first_and_more
from ctrace.inspector.log.collected_log import Marks
from ctrace.inspector.log.dispatch import decode
from ctrace.inspector.log.files import first_record, rotation_note
from ctrace.inspector.log.folders import LogFile, absolute, joining, logs_in, opened_log, pieces_of_one
from ctrace.inspector.log.framing import pieces, records
from ctrace.inspector.log.reader import Broken, LogEntry, Reader, whole
from ctrace.inspector.log.reading_limits import longest_record
from ctrace.inspector.processes.engines import Engine, results_of

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
    # A cache keeps records out of a log, and adds none.
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
                # Where nobody communicates, nothing is missing.
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
        # With fewer records on one rank, one is missing, and nothing says which.
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


_PARALLEL_BYTES = 32 << 20
"""Below this total size, one process reads the logs faster than a second process starts."""
_MOST_VALUES = 8
"""Limit on the different contents that are read again for a divergence."""
COMPILATION = "the compilation itself"
_NOTHING = "nothing"
# Chosen: a wrong --world-size must not fill JSON; the number of missing ranks is exact in any case.
_MOST_MISSING = 10_000
_INSTALLED = "-packages/"


class Divergence(Struct, frozen=True):
    """The first compilation in which ranks differ."""

    compilation: str
    function: str
    file: str
    line: int
    kind: Apart
    subject: str
    """Which input, guard, node, collective or part of a cache key differs."""
    values: dict[int, str]
    """By rank."""
    others: tuple[int, ...] = ()
    """The lines of the same file that other ranks reach there."""
    JSON: ClassVar[str] = "compilation function file line kind subject values"


class CompiledOnRanks(Struct, frozen=True):
    """One compilation, on all ranks."""

    id: str
    function: str
    file: str
    line: int
    contents: tuple[Digest | None, ...]
    """What each group of ranks compiled, in the order of `Job.groups`; None: it did not compile this."""
    JSON: ClassVar[str] = "compilation=id function file line groups=digests"

    @property
    def digests(self) -> tuple[dict[str, str] | None, ...]:
        """What each group of ranks compiled, as digests by kind; equal digests mean equal content."""
        return tuple(None if each is None else each.digests for each in self.contents)


class Job(Struct, frozen=True):
    """All ranks of a job, and whether they agree: the Document of `ctrace ranks`."""

    JSON: ClassVar[str] = (
        "ranks missing=first_missing missing_count agree first_divergence=divergence cut groups compilations seconds "
        "notes reports captured like"
    )

    ranks: tuple[int, ...]
    missing: tuple[range, ...]
    """Ranks without a log; ranges, because a wrong name or --world-size can make them a billion."""
    cut: dict[int, str]
    """Ranks whose log is incomplete, each with the evidence."""
    compilations: tuple["CompiledOnRanks", ...]
    """Every compilation of any rank, in the order of the rank with the most."""
    groups: tuple[tuple[int, ...], ...]
    """Ranks that compiled the same, the largest group first."""
    seconds: dict[int, float]
    """Compile time by rank."""
    divergence: Divergence | None = None
    notes: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    """Torch's own reports of a mismatch, each once."""
    logs: dict[int, LogFile] = field(default_factory=dict)
    """By rank."""
    has_unread: bool = False
    """Whether the folder has logs that cannot be read."""
    captured: tuple[int, ...] | None = None
    """The ranks of a virtual job that were captured; None: the logs are of a job that ran."""
    like: dict[int, int] = field(default_factory=dict)
    """The rank that stands for each other one of a virtual job."""
    world: int | None = None
    """How many ranks a virtual job has."""
    is_staged: bool = False
    """Whether ranks are stages of a pipeline, and compile different code for that."""

    @property
    def first_missing(self) -> tuple[int, ...]:
        """The first 10,000 ranks without a log."""
        return tuple(islice(chain.from_iterable(self.missing), _MOST_MISSING))

    @property
    def missing_count(self) -> int:
        """How many ranks have no log."""
        return sum(map(len, self.missing))

    @property
    def agree(self) -> bool | None:
        """Whether all ranks compiled the same; None if unknown, because a rank is missing or cut off."""
        if self.divergence is not None and (self.divergence.kind is not Apart.MISSING or self.captured is not None):
            return False
        is_partial = self.missing or self.cut or self.has_unread or self.divergence is not None
        if is_partial:
            return None
        return True


def read_job(
    folder: Path,
    world_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine = Engine.PROCESSES,
) -> Job:
    """Read the logs of a job and compare its ranks; the workers of a Ray cluster must see the folder, too.

    Raises:
        RunError: the folder has no logs of ranks, or several logs of one rank; or Ray cannot start.
        SetupError: Ray is not installed.
    """
    found = logs_in(folder)
    skipped = found.note(folder)
    logs = _by_rank(folder, found.logs, skipped)
    summaries = list(_interned(_summaries(logs, progress, engine)))
    job = job_of(summaries, world_size)
    rotated = [log for log in logs if log.parts]
    notes = (*job.notes, *filter(None, [skipped]), *(rotation_note(log.parts) for log in rotated[:_MOST_VALUES]))
    return replace(job, notes=notes, has_unread=any(each.is_log for each in found.skipped))


def _by_rank(folder: Path, logs: Sequence[LogFile], skipped: str) -> list[LogFile]:
    """Refuse a folder that is not one job's.

    Raises:
        RunError: see `read_job`.
    """
    if not logs:
        what = f"{folder} has no trace log"
        if skipped:
            what += f"; {skipped}"
        raise RunError(what, "name a folder that TORCH_TRACE wrote to")
    ranked = [log for log in logs if log.rank is not None]
    if not ranked:
        raise RunError(
            f"the logs in {folder} have no rank",
            f"each log is from one process; read one: ctrace explain {logs[0].path}",
        )
    counts = Counter(log.rank for log in ranked)
    several = sorted(rank for rank, count in counts.items() if count > 1 and rank is not None)
    if not several:
        return ranked
    same = [log for log in ranked if log.rank == several[0]]
    # Pieces of a rotated log look like several logs of a rank; they can be joined.
    if pieces := pieces_of_one(same):
        what = f"the log of rank {several[0]} in {folder} is in {len(pieces)} pieces: only one has a beginning"
        raise RunError(what, joining(folder, pieces))
    paths = [f"{log.path.relative_to(folder)} from {_beginning(log)}" for log in same]
    names = ", ".join(paths[:2])
    if len(paths) > 2:
        names += f" and {len(paths) - 2} more"
    if len(several) == len(counts) and len(counts) > 1:
        what = f"every rank in {folder} has several logs: two jobs, or two attempts of one"
    else:
        what = f"rank {several[0]} has {len(paths)} logs in {folder}: two attempts, or two jobs"
    raise RunError(f"{what} ({names})", "move the logs of one attempt into a folder of their own, and name that")


def _beginning(log: LogFile) -> str:
    return first_record(log.path)[0].partition(".")[0] or "an unknown time"


def _summaries(
    logs: Sequence[LogFile], progress: Callable[[int, int], None] | None, engine: Engine
) -> Iterator[Summary]:
    """Read the logs one after the other; large ones in two processes."""
    jobs = [(absolute(log),) for log in logs]
    is_large = sum(log.bytes for log in logs) > _PARALLEL_BYTES
    yield from _counted(results_of(summary_of, jobs, engine, is_large=is_large), len(jobs), progress)


def _counted(
    summaries: Iterable[Summary], number: int, progress: Callable[[int, int], None] | None
) -> Iterator[Summary]:
    for done, each in enumerate(summaries, 1):
        if progress is not None:
            progress(done, number)
        yield each


def _interned(summaries: Iterable[Summary]) -> Iterator[Summary]:
    """Share equal compilations, so that memory grows with the differences and not with the number of ranks."""
    known: dict[bytes, Digest] = {}
    whole: dict[tuple[int, ...], tuple[Digest, ...]] = {}
    for each in summaries:
        shared = tuple(known.setdefault(_key(one), one) for one in each.compilations)
        yield replace(each, compilations=whole.setdefault(tuple(map(id, shared)), shared))


def _key(one: Digest) -> bytes:
    return repr((_place(one), one.digests, one.communicated)).encode()


def job_of(summaries: list[Summary], world_size: int | None) -> Job:
    """Compare summaries of ranks; `world_size` is how many ranks the job had, if that is known."""
    summaries = list(_interned(with_lowered_collectives(summaries)))
    ranks = tuple(each.rank for each in summaries)
    # Equal compilations are the same objects now.
    groups = grouped(summaries, lambda each: tuple(map(id, each.compilations)))
    ordered = sorted(groups.values(), key=lambda group: (-len(group), group[0].rank))
    longest = max(summaries, key=lambda each: len(each.compilations))
    rows: dict[tuple[str, str, str, int], Digest] = {}
    for lead in (longest, *(group[0] for group in ordered)):
        for one in lead.compilations:
            rows.setdefault(_place(one), one)
    known = [{_place(one): one for one in group[0].compilations} for group in ordered]
    return Job(
        ranks=ranks,
        missing=tuple(_missing(ranks, world_size or 0)),
        cut={each.rank: each.cut for each in summaries if each.cut},
        compilations=tuple(
            CompiledOnRanks(one.id, one.function, one.file, one.line, tuple(each.get(place) for each in known))
            for place, one in rows.items()
        ),
        groups=tuple(tuple(each.rank for each in group) for group in ordered),
        seconds={each.rank: each.seconds for each in summaries},
        divergence=_divergence(ordered),
        notes=tuple(_notes(summaries, world_size)),
        logs={each.rank: each.log for each in summaries},
        reports=tuple(dict.fromkeys(text for each in summaries for text in each.reports)),
    )


def _missing(ranks: tuple[int, ...], world_size: int) -> Iterator[range]:
    """Yield the ranks below the highest, or below the size of the job, that have no log."""
    known = sorted(set(ranks))
    # Gaps between neighbors, since a wrong --world-size may be a billion.
    for before, after in zip((-1, *known), (*known, max(world_size, known[-1] + 1)), strict=True):
        if after - before > 1:
            yield range(before + 1, after)


def _place(one: Digest) -> tuple[str, str, str, int]:
    """Return what identifies a compilation on every rank; hosts may have the same file in different folders."""
    return one.id, one.function, Path(one.file).name, one.line


def _notes(summaries: list[Summary], world_size: int | None) -> Iterator[str]:
    versions: dict[str, list[int]] = {}
    for each in summaries:
        if each.torch:
            versions.setdefault(each.torch, []).append(each.rank)
    if len(versions) > 1:
        several = "; ".join(f"{torch} on rank {', '.join(map(str, ranks[:4]))}" for torch, ranks in versions.items())
        yield f"the ranks ran different versions of torch, so they may be from two jobs: {several}"
    days = sorted({each.began[:4] for each in summaries if each.began})
    if len(days) > 1:
        yield f"the logs begin on different days ({', '.join(days)}, as month and day), so they may be from two jobs"
    if changed := [str(each.rank) for each in summaries if each.changed]:
        ranks = first_and_more(changed, _MOST_VALUES)
        yield f"the logs of these ranks were changed after torch wrote them, as by a redaction: {ranks}"
    yield from _unrecorded(summaries)
    if world_size is not None and max(each.rank for each in summaries) >= world_size:
        yield f"there are ranks beyond --world-size {world_size}"


def _unrecorded(summaries: list[Summary]) -> Iterator[str]:
    """Say which collectives are not compared on some ranks, because their logs have no record of them."""
    lacking: dict[str, dict[str, list[int]]] = {}
    for each in summaries:
        for compile_id, kind in sorted(each.unrecorded):
            lacking.setdefault(kind, {}).setdefault(compile_id, []).append(each.rank)
    for kind in SOURCES:
        by_id = lacking.get(kind, {})
        ranks = sorted({rank for found in by_id.values() for rank in found})
        if ranks:
            listed = first_and_more(ranks, _MOST_VALUES)
            ids = first_and_more(list(by_id), _MOST_VALUES)
            what = f"collectives of {SOURCES[kind]} of {ids} are not compared on these ranks, whose logs lack it"
            yield f"{what}: {listed}"


def _divergence(groups: list[list[Summary]]) -> Divergence | None:
    """Find the earliest compilation in which groups of ranks differ, and the kind that explains the others."""
    if len(groups) < 2:
        return None
    longest = max(len(group[0].compilations) for group in groups)
    for at in range(longest):
        here = [group[0].compilations[at] if at < len(group[0].compilations) else None for group in groups]
        # Compilations have an order on each rank: what comes after the first difference may follow from it.
        if len({None if one is None else _key(one) for one in here}) > 1:
            return _at(groups, here)
    return None


def _at(groups: list[list[Summary]], here: list[Digest | None]) -> Divergence | None:
    """Return how groups differ at one position of their compilations."""
    there = [one for one in here if one is not None]
    if len(there) < len(here):
        return _ended(groups, here)
    if len({_place(one) for one in there}) > 1:
        return _other_function(groups, there)
    differing = [kind for kind in Apart if len({one.digests.get(kind) for one in there}) > 1]
    for kind in differing:
        found = _within(groups, there, kind)
        # An input that only some ranks have follows from another graph, which says more.
        is_lone = kind is Apart.INPUT and _NOTHING in found.values.values()
        if not is_lone or kind is differing[-1]:
            return found
    return None


def _ended(groups: list[list[Summary]], here: list[Digest | None]) -> Divergence:
    """Describe ranks without a further compilation: they did not recompile, or their logs were cut off."""
    one = next(each for each in here if each is not None)
    is_cut = all(group[0].cut for group, each in zip(groups, here, strict=True) if each is None)
    if one.is_recompile and not is_cut:
        kind = Apart.RECOMPILE
    else:
        kind = Apart.MISSING
    texts = []
    for group, each in zip(groups, here, strict=True):
        if each is None:
            last = "the start"
            if group[0].compilations:
                last = group[0].compilations[-1].id
            texts.append(group[0].cut or f"does not compile it: its log ends after {last}")
        else:
            is_last = group[0].compilations[-1] is each
            # Of a log that was cut, this may be all there is to say about its last compilation.
            text = group[0].cut if is_last else ""
            texts.append(text or _reason(group[0], each))
    return _made(one, kind, COMPILATION, dict(zip(map(_ranks, groups), texts, strict=True)))


def _reason(summary: Summary, one: Digest) -> str:
    if not one.is_recompile:
        return "compiles it"
    items = items_in(summary.log, one.id, Apart.RECOMPILE)
    reason = next((item.text for item in items if item.text.strip(" []")), "")
    if reason:
        return f"recompiles: {reason}"
    return "recompiles"


def _other_function(groups: list[list[Summary]], there: list[Digest]) -> Divergence:
    """Describe ranks that compile different functions next."""
    if any(one.is_recompile for one in there):
        kind = Apart.RECOMPILE
    else:
        kind = Apart.GRAPH
    texts = [f"compiles {one.function} ({Path(one.file).name}:{one.line}) as {one.id}" for one in there]
    return _made(there[0], kind, "the next function", dict(zip(map(_ranks, groups), texts, strict=True)))


def _ranks(group: list[Summary]) -> tuple[int, ...]:
    return tuple(each.rank for each in group)


def _made(one: Digest, kind: Apart, subject: str, texts: dict[tuple[int, ...], str]) -> Divergence:
    values = {rank: text for ranks, text in texts.items() for rank in ranks}
    return Divergence(one.id, one.function, one.file, one.line, kind, subject, dict(sorted(values.items())))


def _within(groups: list[list[Summary]], there: list[Digest], kind: Apart) -> Divergence:
    """Read the text of the differing ranks again, and find the first item that differs."""
    by_digest: dict[str | None, list[Summary]] = {}
    for group, one in zip(groups, there, strict=True):
        by_digest.setdefault(one.digests.get(kind), []).extend(group)
    first = {digest: _best_recorded(same, there[0].id) for digest, same in by_digest.items()}
    read = {digest: items_in(first[digest].log, there[0].id, kind) for digest in list(first)[:_MOST_VALUES]}
    base, *others = list(read)
    differences = {other: first_difference(read[base], read[other], kind) for other in others}
    source = ""
    # Nothing differs in Dynamo's graph, so the digests differ by a graph below it.
    if kind is Apart.COLLECTIVE and all(pair == (None, None) for pair in differences.values()):
        source, differences = _lowered(first, base, others, there[0].id)
    at_base, at_other = next((pair for pair in differences.values() if pair != (None, None)), (None, None))
    items = {base: at_base} | {other: pair[1] for other, pair in differences.items()}
    values: dict[int, str] = {}
    for digest, same in by_digest.items():
        ranks = [each.rank for each in same if (there[0].id, source) not in each.unrecorded]
        values |= dict.fromkeys(ranks, _value(items, digest))
    shown = at_base or at_other
    one = there[0]
    is_users = shown is not None and shown.file and _INSTALLED not in shown.file
    if shown is not None and is_users:
        # Of a wrapper such as DDP, the graph names lines of torch.
        place = (shown.file, shown.line)
    else:
        place = (one.file, one.line)
    reached = (item for item in items.values() if item is not None and item.file == place[0])
    lines = tuple(sorted({item.line for item in reached} - {place[1]}))
    return Divergence(one.id, one.function, *place, kind, _subject(shown), dict(sorted(values.items())), lines)


def _best_recorded(same: list[Summary], compile_id: str) -> Summary:
    """Return the rank with the fewest missing records of a compilation; they cannot be shown."""
    return min(same, key=lambda each: sum(one == compile_id for one, _ in each.unrecorded))


def _lowered(
    first: Mapping[str | None, Summary], base: str | None, others: Sequence[str | None], compile_id: str
) -> tuple[str, dict[str | None, tuple[RankItem | None, RankItem | None]]]:
    """Return the first kind of record below Dynamo's graph whose collectives differ, and the items that do."""
    read = {digest: calls_in(first[digest].log, compile_id) for digest in (base, *others)}
    source = ""
    differences: dict[str | None, tuple[RankItem | None, RankItem | None]] = dict.fromkeys(others, (None, None))
    for other in others:
        apart = first_lowered_difference(read[base], read[other])
        if apart is not None and source in ("", apart[0]):
            source, differences[other] = apart[0], apart[1:]
    return source, differences


def _value(items: Mapping[str | None, RankItem | None], digest: str | None) -> str:
    """Return what ranks with a digest have; `items` has the differing item of each digest that was read."""
    if digest not in items:
        return "other"
    item = items[digest]
    if item is None:
        return _NOTHING
    return item.text


def _subject(item: object) -> str:
    return getattr(item, "key", "") or "not known"


_NAMED = (Apart.INPUT, Apart.CACHE_KEY)
"""Kinds whose items have names, so that their order does not matter."""


def items_in(log: LogFile, compile_id: str, kind: Apart) -> list[RankItem]:
    """Return the items of a kind that the last attempt of a compilation recorded.

    Raises:
        RunError: it cannot be read, or its parts cannot be joined.
    """
    places = Places()
    found: list[RankItem] = []
    with opened_log(log) as file:
        for entry in SummaryRecords().wanted(file):
            if isinstance(entry, Broken):
                continue
            places.learn(entry)
            if places.id_of(entry) != compile_id:
                continue
            # The reason of a recompilation comes before its start.
            if entry.kind == "dynamo_start" and kind is not Apart.RECOMPILE:
                found.clear()
            for each, items in items_of(entry):
                if each == kind:
                    found += items
    return found


def first_difference(
    base: list[RankItem], other: list[RankItem], kind: Apart
) -> tuple[RankItem | None, RankItem | None]:
    """Return the first item in which two ranks differ, on both sides; None where a side has no such item."""
    if kind in _NAMED:
        return _by_name(base, other)
    for one, two in zip(base, other, strict=False):
        if one.same != two.same:
            return one, two
    at = min(len(base), len(other))
    return next(iter(base[at:]), None), next(iter(other[at:]), None)


def _by_name(base: list[RankItem], other: list[RankItem]) -> tuple[RankItem | None, RankItem | None]:
    """Compare named items in any order; first those that both ranks have."""
    named = {item.key: item for item in other}
    for one in base:
        two = named.get(one.key)
        if two is not None and one.same != two.same:
            return one, two
    names = {item.key for item in base}
    lone = next((item for item in base if item.key not in named), None)
    if lone is not None:
        return lone, None
    return None, next((item for item in other if item.key not in names), None)


_STEP = b'"chromium_event"'
_START = "dynamo"
"""The outermost step of a compilation (torch/_dynamo/convert_frame.py, 2.11 to 2.15)."""


class Steps(Struct, frozen=True):
    """The compile steps of one rank."""

    rank: int
    timeline: Timeline
    starts: dict[str, float]
    """When each compilation began, in seconds from the first step of this rank."""


def steps_of(log: LogFile) -> Steps:
    """Read the steps of a log, and skip its other records.

    Raises:
        RunError: it cannot be read, or its parts cannot be joined.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    marks, starts = Marks(), dict[str, float]()
    reader = Reader()
    with opened_log(log) as file:
        for piece in pieces(whole(file), longest_record()):
            for start, line, end in records(piece):
                header = piece[start:line]
                if _STEP not in header:
                    continue
                entry = reader.entry(0, header, piece[line:end], 0, is_last=False)
                mark = None
                if isinstance(entry, LogEntry):
                    mark = decode(entry)
                if isinstance(mark, SpanMarked):
                    marks.append(mark)
                    _learn(mark, starts)
    found = timeline(marks.columns())
    first = found.start or 0.0
    return Steps(log.rank or 0, found, {graph: (at - first) / 1e6 for graph, at in starts.items()})


def _learn(mark: SpanMarked, starts: dict[str, float]) -> None:
    """Keep the begin of a compilation."""
    if mark.begins and mark.name == _START and mark.compilation is not None and mark.at is not None:
        starts.setdefault(mark.compilation, mark.at)
