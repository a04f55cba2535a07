"""The kernels that a run generated, and the code that calls them: as a Session has them, and as events of the log."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.stored import HasText, Text
from ctrace.inspector.facts.wire import Integer, OfCompilation, OfGraph


class Stage(StrEnum):
    """The part of a graph; AOTAutograd splits a graph with gradients into a forward and a backward."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


class Argument(Struct, frozen=True):
    """One argument in a kernel call."""

    JSON: ClassVar[str] = "name dtype?tensor shape?tensor stride?tensor value?!tensor"
    name: str
    """The buffer's name in the wrapper, or the text of a number."""
    tensor: bool
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    device: str = ""
    value: str = ""
    """For an argument that is not a tensor: its number if ctrace can compute it, else its text."""
    keyword: str = ""
    """Its keyword; empty for a positional argument."""


class Launch(Struct, frozen=True):
    """One call of a kernel in the wrapper of a graph part."""

    operations: tuple[str, ...] = ()
    """The scheduler nodes that the call computes, by their names in `Fusion.nodes`."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] | None = None
    """In the order of the call; None: not known."""
    call: str = ""
    """The statement in the wrapper that makes the call; empty: not known."""
    read: int | None = None
    """Bytes read; None: not known."""
    written: int | None = None
    flops: int | None = None


class Pointer(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One pointer that a generated kernel takes."""

    name: str
    """Its name in the kernel's source, such as `in_ptr0`."""
    read: str
    """The buffer behind it before the call; empty: the kernel only writes to it."""
    written: str
    """The buffer behind it after the call; empty: the kernel only reads it."""


class KernelBuffer(Struct, frozen=True):
    """A buffer that a kernel reads or writes; sizes and strides are expressions of the graph's symbols."""

    name: str
    kind: str
    """`input` or `constant` of the graph, or `buffer` for a value that the graph computes."""
    node: str
    """The node of Inductor's last graph whose value it holds; empty: not known."""
    dtype: str
    shape: tuple[str, ...]
    stride: tuple[str, ...]
    device: str
    mutates: str
    """The buffer in whose memory it is, if the graph writes into an input; else empty."""


class KernelCall(OfGraph, frozen=True):
    """One call of a generated kernel, as Inductor knows it when it writes the call."""

    KIND: ClassVar[str] = "kernel_call"
    stage: Stage
    name: str
    """The same as `Kernel.name`."""
    pointers: tuple[Pointer, ...]
    sizes: tuple[tuple[str, str], ...]
    """The sizes that it takes, such as `ks0`, and their expressions."""
    numels: tuple[tuple[str, str], ...]
    """The lengths of its loops, such as `xnumel`, and their expressions."""
    buffers: tuple[KernelBuffer, ...]
    workspaces: Integer
    """How many scratch buffers it takes."""
    symbols: Mapping[str, Integer] = field(default_factory=dict)
    """The values that the symbols had when the graph was compiled."""


class Statement(Struct, frozen=True):
    """One line of a kernel's source, and the user's lines that it comes from."""

    JSON: ClassVar[str] = "line lines|places"
    line: int
    """Line of the kernel's source, from 1."""
    lines: tuple[str, ...]
    """`file:line` of the user's code."""


class Kernel(Struct, frozen=True):
    """One generated kernel, or one library kernel, in one graph part."""

    graph: str
    stage: Stage
    name: str
    language: str
    """`triton`, `cpp` or `external`."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """`file:line` of the user's code; empty: torch does not know."""
    calls: int = 1
    launches: tuple[Launch, ...] = ()
    """One per call, in call order; empty in a log of an older ctrace."""
    user: bool = False
    """Whether the user wrote it."""
    source: str = ""
    """The emitted source; empty for a library kernel, and if the log lacks the graph part's code."""
    statements: tuple[Statement, ...] = field(default=())


class OutputCode(HasText, Struct, frozen=True):
    """The module that Inductor wrote for one graph part: its kernels and the wrapper that calls them."""

    graph: str
    stage: Stage
    body: Text
    """The module; a large log keeps it until it is needed."""
    counted: int | None = None
    """Torch's metric for this module, `generated_kernel_count`; None: not known.

    In Triton, it counts the calls of generated kernels. In C++, it counts the loop nests, and one more if nests share
    their outer loop (2.13, _inductor/codegen/cpp.py:4478). It does not count library kernels.
    """


Lines = Mapping[int, tuple[str, ...]]
"""For each line of a kernel's source, its stacks; the key is the CRC-32 of the line without indentation."""


# A list in the log: a kernel has hundreds of lines, and each would repeat the names of both fields.
class LineStacks(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A line of a kernel's source, and the numbers of its stacks."""

    # Not the text, which the log has as the kernel's source; and not Python's hash, which differs between processes.
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
        # A lookup alone would not fail for a negative number, which counts from the end.
        known = range(len(self.stacks) + len(self.beside))
        for lines in self.line_stacks or ():
            for line in lines:
                if not all(number in known for number in line.numbers):
                    # Cut, because a damaged record may have any amount of them.
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
