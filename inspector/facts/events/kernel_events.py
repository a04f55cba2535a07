"""Events about kernels and the code that calls them."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.stored import Text
from ctrace.inspector.facts.wire import Integer, OfCompilation

Lines = Mapping[int, tuple[str, ...]]
"""For each line of a kernel's source, its stacks; the key is the CRC-32 of the line without indentation."""


class LineStacks(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A line of a kernel's source, and the numbers of its stacks."""

    checksum: Integer
    """The CRC-32 of the line without indentation."""
    numbers: tuple[Integer, ...]


class KernelMade(OfCompilation, frozen=True):
    """Inductor emitted code that calls a kernel; one record for each call."""

    KIND: ClassVar[str] = "kernel"
    stage: Stage
    name: str
    language: str
    ops: tuple[str, ...]
    stacks: tuple[str, ...]
    """The stacks of its nodes."""
    beside: tuple[str, ...] = ()
    """Other stacks, of lines alone."""
    operations: tuple[str, ...] = ()
    line_stacks: tuple[tuple[LineStacks, ...], ...] | None = field(default=None, name="statements")
    """A table for each kernel object; in C++, that is a loop nest or the tail of a vectorized loop nest. A stack has
    its number in `stacks`, followed by `beside`.
    """
    user: bool = False
    counted: Integer | None = None
    """Torch's `generated_kernel_count` of the process at that time."""

    def __post_init__(self) -> None:
        """Refuse the number of a stack that there is not.

        Raises:
            ValueError: there is one.
        """
        known = range(len(self.stacks) + len(self.beside))
        for lines in self.line_stacks or ():
            for line in lines:
                if not all(number in known for number in line.numbers):
                    raise ValueError(f"not the numbers of stacks: {line.numbers!r:.80}")

    @property
    def statements(self) -> tuple[Lines, ...]:
        """The stacks of each line, for each kernel object."""
        return tuple(_lines(each, (*self.stacks, *self.beside)) for each in self.line_stacks or ())


def _lines(rows: Iterable[LineStacks], known: tuple[str, ...]) -> Lines:
    """Return the stacks of each line of a kernel object; tens of thousands of lines share few sets of stacks."""
    sets: dict[tuple[int, ...], tuple[str, ...]] = {}
    lines = {}
    for row in rows:
        if row.numbers not in sets:
            sets[row.numbers] = tuple(known[number] for number in row.numbers)
        lines[row.checksum] = sets[row.numbers]
    return lines


class Layout(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The layout of a buffer in memory."""

    name: str
    """The buffer's name in the code."""
    dtype: str
    shape: tuple[Integer, ...]
    stride: tuple[Integer, ...]
    offset: Integer
    device: str


class PartGenerated(OfCompilation, frozen=True):
    """The code of a graph part was generated: torch's kernel counts, and the values behind the names in the code."""

    KIND: ClassVar[str] = "generated"
    stage: Stage
    before: Integer
    """Torch's `generated_kernel_count` before code generation."""
    counted: Integer
    """Torch's `generated_kernel_count` after code generation."""
    buffers: tuple[Layout, ...]
    symbols: Mapping[str, Integer] = field(default_factory=dict)


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


KernelEvent = CodeWritten | TorchCodeSeen | KernelStacksSeen
