"""What a trace line can say of kernels and of the code around them, typed. `decode/` makes these."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.model.kernels import Stage

Lines = Mapping[int, tuple[str, ...]]
"""Stacks of a line of a kernel's source, by the checksum (CRC-32) of its text without indentation."""


class KernelMade(Struct, frozen=True):
    """Inductor emitted or called a kernel, once for each call."""

    id: str
    stage: Stage
    name: str
    language: str
    ops: tuple[str, ...]
    stacks: tuple[str, ...]
    operations: tuple[str, ...] = ()
    statements: tuple[Lines, ...] = ()
    """One for each kernel object: in C++ a loop nest, or what a vectorized one does with the rest."""
    user: bool = False
    counted: int | None = None
    """Torch's `generated_kernel_count` at that time, of the process."""


class Layout(Struct, frozen=True):
    """A tensor in memory, in numbers."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    device: str


class PartGenerated(Struct, frozen=True):
    """The code of a graph part is there: what torch has counted, and what the names in it stand for."""

    id: str
    stage: Stage
    before: int
    """Torch's `generated_kernel_count` when the code was begun."""
    counted: int
    """And when it was done."""
    buffers: Mapping[str, Layout] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)


class CodeWritten(Struct, frozen=True):
    """The module that Inductor wrote for a graph part."""

    id: str
    stage: Stage
    text: str


KernelEvent = KernelMade | PartGenerated | CodeWritten
