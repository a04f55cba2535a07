"""Events about Inductor's passes and about attention."""

from collections.abc import Mapping

from msgspec import Struct

from ctrace.inspector.facts.passes import Attention, Pass

Stacks = tuple[str, ...]


class PassDone(Struct, frozen=True):
    """A pass over a graph ended; `stacks` has the stacks of its patterns' nodes, keyed by the pattern's name."""

    done: Pass
    stacks: Mapping[str, Stacks]


class AttentionFound(Struct, frozen=True):
    """The attentions of a graph, each with its stacks and with the stacks of the ops that prevented its fusion."""

    places: tuple[tuple[Attention, Stacks, Stacks], ...]


PassEvent = PassDone | AttentionFound
