"""What is known of a GPU that code is emitted for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

FORMATS = ("float64", "tf32", "float16", "bfloat16", "float8", "int8")
"""Numbers that units for products of matrices take; `tf32` is float32 with fewer bits."""
VECTOR_FORMATS = ("float64", "float32")


@dataclass(frozen=True, slots=True)
class TargetGpu:
    """A GPU as torch and Triton would describe it, and what its maker says of its speed.

    Sizes of memory are in bytes, rates in operations or bytes a second.
    """

    name: str
    """As `--target` takes it: `h100`."""
    title: str
    """As the driver calls it."""
    capability: tuple[int, int]
    processors: int
    registers: int
    """Of a multiprocessor."""
    threads: int
    """Of a multiprocessor."""
    shared: int
    """Of a multiprocessor."""
    shared_per_block: int
    """That a block has without asking."""
    shared_per_block_optin: int
    """The most that a block can ask for."""
    memory: int
    l2: int
    threads_per_block: int = 1024
    warp: int = 32
    clock: float | None = None
    """The most cycles a second; None: not known."""
    bandwidth: float | None = None
    """Of its memory; None: not known."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Peak operations a second of its units for products of matrices, by format (`FORMATS`): dense, sums in float32 or
    int32, as its maker tells; not named: not known."""
    vector_rates: Mapping[str, float] = field(default_factory=dict)
    """The same of its ordinary units, by format (`VECTOR_FORMATS`)."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the facts are from, by field."""
