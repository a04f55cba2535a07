"""Events about kernels and the code that calls them."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.facts.kernels import KernelCall, Stage
from ctrace.inspector.facts.stored import Text

Lines = Mapping[int, tuple[str, ...]]
"""For each line of a kernel's source, its stacks; the key is the CRC-32 of the line without indentation."""


class KernelMade(Struct, frozen=True):
    """Inductor emitted code that calls a kernel; one event for each call."""

    id: str
    stage: Stage
    name: str
    language: str
    ops: tuple[str, ...]
    stacks: tuple[str, ...]
    operations: tuple[str, ...] = ()
    statements: tuple[Lines, ...] = ()
    """One table for each kernel object; in C++, that is a loop nest or the tail of a vectorized loop nest."""
    user: bool = False
    counted: int | None = None
    """Torch's `generated_kernel_count` of the process at that time."""


class Layout(Struct, frozen=True):
    """The layout of a tensor in memory."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    device: str


class PartGenerated(Struct, frozen=True):
    """The code of a graph part was generated: torch's kernel counts, and the values behind the names in the code."""

    id: str
    stage: Stage
    before: int
    """Torch's `generated_kernel_count` before code generation."""
    counted: int
    """Torch's `generated_kernel_count` after code generation."""
    buffers: Mapping[str, Layout] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)


class CodeWritten(Struct, frozen=True):
    """The module that Inductor wrote for a graph part."""

    id: str
    stage: Stage
    text: Text


class TorchCodeSeen(Struct, frozen=True):
    """The module of a graph part in a log that only torch wrote, which does not name the part."""

    id: str
    text: Text


class KernelStacksSeen(Struct, frozen=True):
    """The stack traces of the kernels in the module that torch logged last."""

    id: str
    text: str


KernelEvent = KernelMade | PartGenerated | CodeWritten | KernelCall | TorchCodeSeen | KernelStacksSeen
