"""What `ctrace kernels wrap` reads from a file, and what it writes."""

import ast
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct


class Decorator(Struct, frozen=True):
    """A decorator of a kernel, such as `triton.autotune`, with the names of its arguments."""

    name: str
    keywords: tuple[str, ...]
    text: str


class JitFunction(Struct, frozen=True):
    """A `@triton.jit` function in the source."""

    name: str
    parameters: tuple[str, ...]
    constants: tuple[str, ...]
    """The parameters that are `tl.constexpr`."""
    decorators: tuple[Decorator, ...]
    """The decorators above `triton.jit`, outermost first."""
    node: ast.FunctionDef
    written: tuple[str, ...]
    """The parameters that flow into a store or an atomic operation."""
    read: tuple[str, ...]
    """The parameters that flow into a load."""
    assumed: str = ""
    """Why `written` has parameters that may not be written; empty if each was seen in a store."""


class JitLaunch(Struct, frozen=True):
    """A call `kernel[grid](...)`."""

    call: ast.Call
    line: int
    grid: ast.expr
    arguments: Mapping[str, ast.expr]
    """The arguments by the kernel's parameter names."""
    settings: Mapping[str, ast.expr]
    """Arguments that are not the kernel's, such as num_warps."""
    function: ast.FunctionDef | None
    """The innermost function around the launch."""
    is_method: bool = False
    is_nested: bool = False
    is_wrapped: bool = False
    """Whether the kernel is inside `wrap_triton` already."""


class OperatorLimit(Struct, frozen=True):
    """A limit of torch that concerns this kernel, or that would after a change."""

    what: str
    applies: bool


class Wrapped(Struct, frozen=True):
    """The operator that was written."""

    name: str
    """The qualified name, such as `ops::add`."""
    function: str
    kernel: str
    file: str
    line: int
    """The line of the launch."""
    mutates: tuple[str, ...]
    """The operator's arguments that it writes to."""
    written: tuple[str, ...]
    """The kernel's parameters that it writes to."""
    written_source: str
    """Where `written` comes from: `triton` for Triton's intermediate code, `source` for the kernel's text."""
    returns: str
    fake: str
    """How the fake implementation was made."""
    cpu: str
    """`branch` for the user's own branch, `interpreter` for Triton's interpreter."""
    flops: int | None
    """Floating-point operations per element; None if the source does not show them."""
    calls: tuple[str, str]
    """The lines of the user's file that change, before and after."""
    notes: tuple[str, ...]
    source: str

    @property
    def edit(self) -> "CallEdit":
        """The change of the user's file."""
        return CallEdit(*self.calls)


class CallEdit(Struct, frozen=True):
    """Lines of the user's file, before and after a change."""

    before: str
    after: str


class OperatorCheck(Struct, frozen=True):
    """A check of the operator, in a process that imports it."""

    JSON: ClassVar[str] = "what passed detail|null_if_empty"
    what: str
    passed: bool | None
    """None: not checked."""
    detail: str = ""


class WrapResult(Struct, frozen=True):
    """An operator with its limits and checks."""

    JSON: ClassVar[str] = (
        "schema operator=wrapped.name kernel=wrapped.kernel file=wrapped.file line=wrapped.line "
        "mutates=wrapped.mutates kernel_writes=wrapped.written kernel_writes_from=wrapped.written_source "
        "fake=wrapped.fake cpu=wrapped.cpu flops_per_element=wrapped.flops calls=wrapped.edit limits checks "
        "notes=wrapped.notes source=wrapped.source"
    )
    wrapped: Wrapped
    limits: tuple[OperatorLimit, ...]
    checks: tuple[OperatorCheck, ...] = ()
