"""What Inductor's passes did to the graphs of a run, with the user's lines; and what torch's counters say of it."""

from collections.abc import Iterator
from dataclasses import replace

from ctrace.inspector.log.raw import Raw
from ctrace.inspector.model.passes import Attention, Pass
from ctrace.inspector.source.stacks import user_lines


def passes_of(raw: Raw) -> tuple[Pass, ...]:
    """List the passes in the order in which they ended."""
    return tuple(
        replace(
            each.done,
            patterns=tuple(
                replace(pattern, lines=user_lines(each.stacks[pattern.name], raw.prefixes))
                for pattern in each.done.patterns
            ),
        )
        for each in raw.passes
    )


def attention_of(raw: Raw) -> tuple[Attention, ...]:
    """List the attentions of all graphs."""
    found = []
    for event in raw.attention:
        for each, stacks, why_stacks in event.places:
            why = each.why and replace(each.why, lines=user_lines(why_stacks, raw.prefixes))
            found.append(replace(each, lines=user_lines(stacks, raw.prefixes), why=why))
    return tuple(found)


def miscounted(raw: Raw) -> Iterator[str]:
    """Say where torch's counters of matches contradict the matches that were seen."""
    for event in raw.passes:
        done = event.done
        if done.matches != done.counted:
            yield (
                f"graph {done.graph}, pass {done.title}: torch's counter pattern_matcher_count says {done.counted}, "
                f"{done.matches} applied patterns were seen"
            )
    counted = sum(event.done.counters.get("fuse_attention", 0) for event in raw.passes)
    seen = sum(each.counted for event in raw.attention for each, _, _ in event.places)
    if counted != seen:
        yield (
            f"attention: torch's counter fuse_attention says {counted}, the attentions found here account for {seen}; "
            "some may be missing"
        )
