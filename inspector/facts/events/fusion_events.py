"""The record of a graph part's fusion: rounds, nodes and buffers, which refer to names by number."""

from typing import Any, ClassVar

from msgspec import UNSET, Struct, UnsetType, field

from ctrace.inspector.facts.fusion_facts import Access, Buffer, Fusion, NodeKind
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.wire import Integer, OfGraph

_SINCE: Any = UNSET
"""A field that every round has, except in the logs of an older ctrace, which wrote `fused` instead."""


class RecordedRound(Struct):
    """One round of the scheduler, which the hook fills while it runs; see `FusionRound`.

    Numbers are those of names and reasons in `FusionRecord`.
    """

    before: Integer
    after: Integer
    reorder: bool = _SINCE
    tried: Integer = _SINCE
    pairs: list[tuple[Integer, Integer]] = _SINCE
    """The fused pairs."""
    candidates: list[tuple[Integer, ...]] = _SINCE
    """Two names and, if torch has a score, the five numbers of `Score`."""
    refused: list[tuple[Integer, Integer, Integer]] = _SINCE
    """Two names and a reason."""
    fused: list[tuple[str, str]] | UnsetType = UNSET
    """The fused pairs as an older ctrace wrote them, by name and without all the rest."""

    def __post_init__(self) -> None:
        """Refuse a round that lacks a field.

        Raises:
            ValueError: it does.
        """
        fields = self.reorder, self.tried, self.pairs, self.candidates, self.refused
        if self.fused is UNSET and any(each is _SINCE for each in fields):
            raise ValueError("a round without all of its fields")


class FusedNode(Struct, frozen=True, kw_only=True):
    """A node of the scheduler after fusion; see `Node`."""

    name: str
    kind: NodeKind
    operations: tuple[str, ...]
    loops: str
    accesses: tuple[Access, ...]
    flops: Integer | None = None


class ScheduledNode(FusedNode, frozen=True, kw_only=True):
    """A node before fusion, with the numbers of its ops and stacks in `FusionRecord`."""

    ops: tuple[Integer, ...]
    stacks: tuple[Integer, ...]


class FusionRecord(OfGraph, frozen=True):
    """How the scheduler fused the nodes of one graph part; texts that recur are numbered."""

    KIND: ClassVar[str] = "fusion"
    stage: Stage
    before: Integer
    after: Integer
    refused: Integer
    rounds: tuple[RecordedRound, ...]
    names: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    nodes: tuple[ScheduledNode, ...] = ()
    """Before the first round; empty in the log of an older ctrace."""
    result: tuple[Integer | FusedNode, ...] = ()
    """After the last round; a number is that of a node in `nodes` that fusion left unchanged."""
    buffers: tuple[Buffer, ...] = ()
    outputs: tuple[str, ...] = ()


class FusionDone(Struct, frozen=True):
    """The same with names in place of numbers."""

    id: str
    fusion: Fusion
    """The nodes have no user lines yet; `stacks` has the stacks to find them."""
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Stack traces, keyed by node before fusion."""
