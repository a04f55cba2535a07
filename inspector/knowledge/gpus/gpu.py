"""The facts about a target GPU."""

from collections.abc import Mapping

from msgspec import Struct, field

FORMATS = ("float64", "tf32", "float16", "bfloat16", "float8", "int8")
"""Formats that Tensor Cores support; `tf32` is float32 with fewer bits."""
VECTOR_FORMATS = ("float64", "float32")


class TargetGpu(Struct, frozen=True):
    """A GPU as torch and Triton describe it, with peak rates from its data sheet.

    Memory sizes are in bytes, rates in operations or bytes per second.
    """

    name: str
    """The name for `--target`: `h100`."""
    title: str
    """The driver's name for it."""
    capability: tuple[int, int]
    processors: int
    registers: int
    """Per multiprocessor."""
    threads: int
    """Per multiprocessor."""
    shared: int
    """Per multiprocessor."""
    shared_per_block: int
    """Shared memory that a block can use by default."""
    shared_per_block_optin: int
    """Shared memory that a block can use if it requests it."""
    memory: int
    l2: int
    threads_per_block: int = 1024
    warp: int = 32
    clock: float | None = None
    """Maximum cycles per second; None if not known."""
    bandwidth: float | None = None
    """Memory bandwidth; None if not known."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Peak operations per second of the Tensor Cores, by format (`FORMATS`): dense, summed in float32 or int32, as in
    the data sheet; a missing format is not known."""
    vector_rates: Mapping[str, float] = field(default_factory=dict)
    """Peak operations per second of the vector units, by format (`VECTOR_FORMATS`)."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each fact, keyed by field."""
