"""Triton kernels that the user wrote and calls in a compiled region; plain frozen records."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from ctrace.inspector.model.kernels import Stage


class ParameterKind(StrEnum):
    """Where a kernel has the value of a parameter from."""

    TENSOR = "tensor"
    NUMBER = "number"
    CONSTANT = "constant"
    """A `tl.constexpr` that the call gives."""
    CONFIG = "config"
    """A `tl.constexpr` that a configuration gives."""
    NONE = "none"
    DEFAULT = "default"
    """Not given: the default in the kernel's own signature."""


class Parameter(Struct, frozen=True):
    """A parameter of a kernel, at one call."""

    name: str
    kind: ParameterKind
    constexpr: bool = False
    value: str = ""
    """As text; empty for a tensor, and for what the call does not give."""
    fixed: bool = False
    """Whether Inductor writes the value into the code, so that another value is another kernel."""
    dtype: str = ""
    shape: tuple[str, ...] = ()
    written: bool | None = None
    """Whether torch takes the tensor as written; None: no tensor, or not known."""
    read: bool | None = None
    """The same for reading; torch 2.11 does not ask."""


class Epilogue(StrEnum):
    """Whether Inductor fuses what follows into the kernel."""

    FUSED = "fused"
    POSSIBLE = "possible"
    """It may, and nothing that follows was fused."""
    SWITCHED_OFF = "switched_off"
    """The kernel is fit for it, as far as torch asks before the switch."""
    WRITES = "writes"
    """Torch does not see exactly one tensor written, once, that is not read."""
    STORES = "stores"
    """Its source does not have exactly one `tl.store`."""
    NOT_EMPTY = "not_empty"
    """The written tensor is not a new one from torch.empty."""
    UNKNOWN_TO_TORCH = "unknown_to_torch"
    """This torch has no such fusion."""


class TritonOp(Struct, frozen=True):
    """The `torch.library.triton_op` that calls a kernel."""

    name: str
    """`mylib::scale`"""
    file: str
    line: int
    fallbacks: tuple[str, ...] = ()
    """Devices that have a kernel of their own (`register_kernel`)."""
    autograd: bool = False
    flops: bool = False
    """Whether a formula counts its arithmetic (`register_flop_formula`)."""
    mutates: tuple[str, ...] = ()
    """Arguments that its author declared as written."""


class UserKernel(Struct, frozen=True):
    """One call of a Triton kernel that the user wrote."""

    graph: str
    stage: Stage
    operation: str
    """The scheduler's name of the call; the same as in `Fusion.nodes` and `Launch.operations`."""
    kernel: str
    """As the user named it."""
    file: str
    line: int
    """Where it is defined."""
    name: str = ""
    """As Inductor calls it in the wrapper, the same as in `Kernel.name`; empty: no code was written."""
    lines: tuple[str, ...] = ()
    """`file:line` of the call."""
    device: str = ""
    decorators: tuple[str, ...] = ()
    """Triton's classes, outermost first: `Autotuner`, `Heuristics`, `JITFunction`."""
    parameters: tuple[Parameter, ...] = ()
    assumed: str | None = ""
    """Why torch takes every tensor as written without knowing; empty: it knows. None: not known whether it does."""
    grids: tuple[tuple[str, ...], ...] = ()
    """One for each configuration, or one for all; sizes as torch writes them."""
    configs: tuple[Mapping[str, str], ...] = field(default=())
    """What each configuration sets, heuristics worked in."""
    key: tuple[str, ...] = ()
    """As the user gave it to triton.autotune."""
    heuristics: tuple[str, ...] = ()
    """Parameters that triton.heuristics sets."""
    restored: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()
    flops: bool = False
    """Whether a formula counts the kernel's own arithmetic."""
    op: TritonOp | None = None
    epilogue: Epilogue | None = None
    """None: no code was written."""

    @property
    def autotuned(self) -> bool:
        """Whether the user put triton.autotune on it."""
        return "Autotuner" in self.decorators

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """Parameters that are tensors."""
        return tuple(each for each in self.parameters if each.kind is ParameterKind.TENSOR)

    @property
    def written(self) -> tuple[str, ...]:
        """Parameters that torch takes as written."""
        return tuple(each.name for each in self.tensors if each.written)


class UserKernelLowered(Struct, frozen=True):
    """Inductor met a call of a user's kernel; `stack` is where."""

    id: str
    kernel: UserKernel
    stack: str


class UserKernelWritten(Struct, frozen=True):
    """Inductor wrote the code of such a call."""

    id: str
    stage: Stage
    operation: str
    name: str
    constants: Mapping[str, str]
    epilogue: Epilogue


UserKernelEvent = UserKernelLowered | UserKernelWritten
