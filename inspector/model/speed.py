"""Whether a built model is faster than eager, in one comparison."""

from msgspec import Struct


class Speed(Struct, frozen=True):
    """Eager against compiled, as `ctrace time` measures it, with fewer rounds; times in seconds for one call."""

    verdict: str = "not_measured"
    """`faster`, `slower`, `no_difference`, `undecided` or `not_measured`."""
    scenario: str = ""
    part: str = ""
    """`forward`, or `step` with --train."""
    eager: float | None = None
    compiled: float | None = None
    ratio: float | None = None
    """How many times faster compiled is; below 1, it is slower."""
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    why: str = ""
    """Why nothing was measured."""
    cost: float = 0.0
    """What measuring took, after the run."""
