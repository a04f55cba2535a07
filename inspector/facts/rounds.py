"""The times of calls of an eager and a compiled model that take turns, in seconds."""

from typing import ClassVar

from msgspec import Struct


class WarmedUp(Struct, frozen=True):
    """The warm-up calls of one side, before the first round."""

    JSON: ClassVar[str] = "side calls compiling recordings=recorded settled"
    scenario: str
    part: str
    side: str
    seconds: tuple[float, ...]
    compiled: tuple[int, ...]
    """Indexes of the calls in which torch compiled something."""
    recorded: int
    """The number of CUDA graphs that the calls recorded."""
    settled: bool

    @property
    def calls(self) -> int:
        """The number of calls."""
        return len(self.seconds)

    @property
    def compiling(self) -> int:
        """The number of calls in which torch compiled something."""
        return len(self.compiled)


class RoundDone(Struct, frozen=True):
    """The time of a call of each side, in one round."""

    scenario: str
    part: str
    eager: float
    compiled: float
    clean: bool = True
    """Whether torch compiled nothing during the round."""
