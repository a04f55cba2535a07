"""Sentences about the ranks of a job, which the screen and the page share."""

from collections.abc import Iterable, Iterator

from ctrace.inspector.features.compare.rank_summary import Apart, Digest
from ctrace.inspector.features.compare.ranks_of_job import Job
from ctrace.reports import format as fmt

KINDS = {
    Apart.INPUT: "an input",
    Apart.COLLECTIVE: "a collective",
    Apart.GRAPH: "the graph",
    Apart.GUARD: "a guard",
    Apart.CACHE_KEY: "a part of the cache key",
    Apart.RECOMPILE: "a recompilation",
    Apart.MISSING: "a missing compilation",
}
ADVICE = {
    Apart.INPUT: "Each rank compiles for its own sizes: pad the input to one size, or mark the dimension dynamic.",
    Apart.COLLECTIVE: (
        "Ranks that call different collectives, or in a different order, wait for each other: the job can hang."
    ),
    Apart.GRAPH: "A branch in the model depends on the rank, its data or its environment.",
    Apart.GUARD: "The graphs are equal; a later call can meet the guards of one rank and recompile on another.",
    Apart.CACHE_KEY: "The ranks cannot share compiled code: compare their environment variables and torch's settings.",
    Apart.RECOMPILE: "While one rank recompiles, the others can only wait in their next collective.",
    Apart.MISSING: "See the end of that rank's own output: a log does not show why a process ended.",
}
# Chosen: each group is a column of the table, of 18 columns.
MOST_GROUPS = 6
# Chosen: each is a line above the answer.
_MOST_INCOMPLETE = 8
# Chosen: ranges, of which a group of a mesh has a few; beyond, their number.
_MOST_RANKS = 5


def answer(job: Job) -> tuple[str, str]:
    """Return whether the ranks agree, as one word and as a sentence."""
    number = fmt.count(len(job.ranks), "rank")
    if job.agree is None:
        return "INCOMPLETE", f"{number}: cannot tell whether all ranks agree"
    if job.agree and job.is_staged:
        return "AGREE", f"{number}: those of one stage compiled the same, {fmt.count(len(job.groups), 'group')}"
    if job.agree:
        whole = "compiled the same" if len(job.ranks) > 1 else "nothing to compare it with"
        return "AGREE", f"{number}: {whole}, {fmt.count(len(job.compilations), 'compilation')}"
    return "DIVERGE", f"{number} in {fmt.count(len(job.groups), 'group')}: {_groups(job)}"


def _groups(job: Job) -> str:
    shown = [ranks_text(group) for group in job.groups[:MOST_GROUPS]]
    if left := len(job.groups) - len(shown):
        shown.append(f"and {left} more")
    return "; ".join(shown)


def incomplete(job: Job) -> Iterator[str]:
    """Name the ranks without a log, and those whose log is incomplete."""
    if job.missing:
        yield f"No log of {ranges_text((each[0], each[-1]) for each in job.missing)}."
    for rank, why in list(job.cut.items())[:_MOST_INCOMPLETE]:
        yield f"The log of rank {rank} is incomplete: {why}."
    if (left := len(job.cut) - _MOST_INCOMPLETE) > 0:
        yield f"And {left} more incomplete logs: see --json."


def ranks_text(ranks: Iterable[int]) -> str:
    """Write `rank 3`, or `ranks 0-3, 5`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ranges_text((low, high) for low, high in runs)


def ranges_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Write ranges of ranks, each from its lowest to its highest, as `ranks_text` does."""
    runs = list(ranges)
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
    return f"{'rank' if is_one else 'ranks'} {fmt.listed(parts, _MOST_RANKS)}"


def letters(contents: Iterable[Digest | None]) -> Iterator[str]:
    """Yield a letter for what each group compiled; the same letter means the same content, - means nothing."""
    known: dict[str, str] = {}
    for each in contents:
        if each is None:
            yield "-"
        else:
            key = repr(sorted(each.digests.items()))
            # Beyond Z, all have one letter; so many groups are only in --all.
            letter = known.setdefault(key, chr(ord("A") + min(len(known), 25)))
            yield letter
