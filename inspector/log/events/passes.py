"""What a trace line can say of Inductor's passes, typed. `decode/` makes these."""

from collections.abc import Mapping

from msgspec import Struct

from ctrace.inspector.model.passes import Attention, Pass

Stacks = tuple[str, ...]


class PassDone(Struct, frozen=True):
    """A pass is through with a graph; `stacks` are those of its patterns, by name."""

    done: Pass
    stacks: Mapping[str, Stacks]


class AttentionFound(Struct, frozen=True):
    """The attentions of a graph, each with its stacks, and those of what was in the way."""

    places: tuple[tuple[Attention, Stacks, Stacks], ...]


PassEvent = PassDone | AttentionFound
