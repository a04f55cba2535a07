"""What `ctrace kernels wrap` reads from a file, asks of its child process (`WrapRequest`), and writes (`WrapResult`).

`limits_of` says which limits of torch concern a kernel of the user's. They were read in torch 2.11, 2.13 and 2.15:
`wrap_triton` (_library/triton.py) refuses every decorator but `triton.jit` and `triton.autotune` as the outermost one;
`init_variable` and `call_triton_kernel` (_higher_order_ops/triton_kernel_wrap.py) refuse the rest of what is listed
here.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.runs.capture_request import Options


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


class WrapRequest(Struct, frozen=True):
    """Write and check an operator for a kernel."""

    file: str
    kernel: str
    options: Options
    is_model: bool
    """Whether the file has a model and inputs, with which the kernel can be run."""


_REFUSED = ("pre_hook", "post_hook", "warmup", "rep", "use_cuda_graph", "do_bench")
_EXTRA = ("restore_value", "reset_to_zero", "prune_configs_by")


def limits_of(kernel: JitFunction, launch: JitLaunch) -> tuple[OperatorLimit, ...]:
    """Return the limits, those that apply first."""
    found = [*_order(kernel), *_autotune(kernel), *_launched(kernel, launch)]
    return tuple(sorted(found, key=lambda each: not each.applies))


def _order(kernel: JitFunction) -> Iterator[OperatorLimit]:
    names = [each.name for each in kernel.decorators]
    yield OperatorLimit("torch takes one @triton.autotune per kernel", applies=names.count("autotune") > 1)
    outermost = next((name for name in names if name != "jit"), "jit")
    what = "wrap_triton takes @triton.heuristics only below @triton.autotune: the configuration is chosen first, and "
    yield OperatorLimit(f"{what}the heuristics run for each one", applies=outermost == "heuristics")
    both = "heuristics" in names and outermost != "heuristics"
    yield OperatorLimit("a function in @triton.heuristics must return a constant", applies=both)


def _autotune(kernel: JitFunction) -> Iterator[OperatorLimit]:
    used = [name for each in kernel.decorators if each.name == "autotune" for name in each.keywords]
    refused = [name for name in used if name in _REFUSED]
    found = ""
    if refused:
        found = f"; this kernel has {', '.join(refused)}"
    yield OperatorLimit(f"of @triton.autotune, rely on `configs` and `key` only{found}", applies=bool(refused))
    extra = [name for name in used if name in _EXTRA]
    if extra:
        yield OperatorLimit(f"{', '.join(extra)}: torch 2.11 and later take them", applies=True)
    hooks = any("pre_hook" in each.text for each in kernel.decorators if each.name == "autotune")
    yield OperatorLimit(
        "torch takes no pre_hook in triton.Config, because it runs Python at every launch", applies=hooks
    )


def _launched(kernel: JitFunction, launch: JitLaunch) -> Iterator[OperatorLimit]:
    yield OperatorLimit(
        "torch takes no num_ctas at the launch: put it into a triton.Config", applies="num_ctas" in launch.settings
    )
    starred = any(keyword.arg is None for keyword in launch.call.keywords)
    yield OperatorLimit(
        "the arguments must be written out: *args and **kwargs hide which tensors are written", applies=starred
    )
    if kernel.assumed:
        yield OperatorLimit(kernel.assumed, applies=True)
