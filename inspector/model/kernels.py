"""What a run generated: its kernels and the code that calls them; plain frozen records."""

from enum import StrEnum

from msgspec import Struct, field


class Stage(StrEnum):
    """Which of a graph's compiled parts something belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


class Argument(Struct, frozen=True):
    """What a kernel is called with, at one place."""

    name: str
    """The buffer's name in the wrapper, or the text of a number."""
    tensor: bool
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    device: str = ""
    value: str = ""
    """Of an argument that is no tensor: the number, where it can be worked out, else its text."""
    keyword: str = ""
    """The name it is passed by; empty: by its place."""


class Launch(Struct, frozen=True):
    """One call of a kernel in the wrapper of a graph part."""

    operations: tuple[str, ...] = ()
    """Nodes of the scheduler that it computes; the same names as in `Fusion.nodes`."""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] | None = None
    """In the order of the call; None: not known."""
    call: str = ""
    """The statement of the wrapper that calls it; empty: not known."""
    read: int | None = None
    """Bytes; None: not known."""
    written: int | None = None
    flops: int | None = None


class Statement(Struct, frozen=True):
    """Whose a line of a kernel's source is."""

    line: int
    """In the kernel's source, from 1."""
    lines: tuple[str, ...]
    """`file:line` of the user's code."""


class Kernel(Struct, frozen=True):
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
    launches: tuple[Launch, ...] = ()
    """One for each call, in their order; empty in a log of an older ctrace."""
    user: bool = False
    """Whether the user wrote it."""
    source: str = ""
    """As emitted; empty for a library's, and where the code of the graph part is not in the log."""
    statements: tuple[Statement, ...] = field(default=())


class OutputCode(Struct, frozen=True):
    """The module that Inductor wrote for one graph part: its kernels and the wrapper that calls them."""

    graph: str
    stage: Stage
    text: str
    counted: int | None = None
    """Torch's own metric for it, `generated_kernel_count`; None: not known.

    In Triton it is one for each call of a generated kernel. In C++ it is one for each loop nest, and one more where
    nests share their outer loop (2.13, _inductor/codegen/cpp.py:4478). A library's kernels are not counted.
    """
