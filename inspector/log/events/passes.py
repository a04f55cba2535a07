"""What a trace line can say of Inductor's passes, typed. `decode/` makes these."""

from collections.abc import Mapping
from dataclasses import dataclass

from ctrace.inspector.model.passes import Attention, Pass

Stacks = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PassDone:
    """A pass is through with a graph; `stacks` are those of its patterns, by name."""

    done: Pass
    stacks: Mapping[str, Stacks]


@dataclass(frozen=True, slots=True)
class AttentionFound:
    """The attentions of a graph, each with its stacks, and those of what was in the way."""

    places: tuple[tuple[Attention, Stacks, Stacks], ...]


PassEvent = PassDone | AttentionFound
