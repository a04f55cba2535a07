"""List Inductor's passes over the graphs of a run, with the user's lines, and check them against torch's counters."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from ctrace.inspector.facts.passes import Attention, Pass, Pattern
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.stacks import user_lines


def passes_of(raw: CollectedLog) -> tuple[Pass, ...]:
    """List the passes in the order in which they finished."""
    return tuple(replace(each, patterns=_placed(each.patterns, raw.prefixes)) for each in raw.passes)


def _placed(patterns: Iterable[Pattern], prefixes: Mapping[str, str]) -> tuple[Pattern, ...]:
    return tuple(replace(each, lines=user_lines(each.stacks, prefixes)) for each in patterns)


def attention_of(raw: CollectedLog) -> tuple[Attention, ...]:
    """List the attentions of all graphs."""
    found = []
    for event in raw.attention:
        for each in event.places:
            why = each.why and replace(each.why, lines=user_lines(each.why.stacks, raw.prefixes))
            lines = user_lines(each.stacks, raw.prefixes)
            found.append(replace(each, graph=event.graph, stage=event.stage, lines=lines, why=why))
    return tuple(found)


def miscounted(raw: CollectedLog) -> Iterator[str]:
    """Report passes and attentions for which torch's counters of matches contradict the recorded matches."""
    for done in raw.passes:
        if done.matches != done.counted:
            yield (
                f"graph {done.graph}, pass {done.title}: torch's counter pattern_matcher_count is {done.counted}, "
                f"but the log records {done.matches} applied patterns"
            )
    counted = sum(done.counters.get("fuse_attention", 0) for done in raw.passes)
    seen = sum(each.counted for event in raw.attention for each in event.places)
    if counted != seen:
        yield (
            f"attention: torch's counter fuse_attention is {counted}, but the recorded attentions account for {seen}; "
            "some may be missing"
        )
