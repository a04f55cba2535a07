"""What a run generated: how nodes were fused, and the kernels; plain frozen dataclasses."""

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """Which of a graph's compiled parts something belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True)
class FusionRound:
    """One round of the scheduler: nodes before, nodes after, pairs fused."""

    before: int
    after: int
    fused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the scheduler of one graph part merged its nodes."""

    graph: str
    stage: Stage
    before: int
    after: int
    rounds: tuple[FusionRound, ...] = ()
    refused: int = 0
    """Pairs that the scheduler declined, with a reason."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated kernel, or one call of a library's, in one graph part."""

    graph: str
    stage: Stage
    name: str
    language: str
    """`triton`, `cpp` or `external`."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code; empty: torch does not know."""
    calls: int = 1
