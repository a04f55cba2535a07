"""Events about Inductor's passes and about attention."""

from collections.abc import Mapping

from msgspec import Struct

from ctrace.inspector.model.passes import Attention, Pass

Stacks = tuple[str, ...]


class PassDone(Struct, frozen=True):
    """A pass ended on a graph; `stacks` has the stacks of its patterns, by name."""

    done: Pass
    stacks: Mapping[str, Stacks]


class AttentionFound(Struct, frozen=True):
    """The attentions of a graph, each with its stacks and the stacks of what prevented its fusion."""

    places: tuple[tuple[Attention, Stacks, Stacks], ...]


PassEvent = PassDone | AttentionFound
