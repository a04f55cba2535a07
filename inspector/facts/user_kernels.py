"""Triton kernels that the user wrote and calls in a compiled region; plain frozen records."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.wire import Integer, OfCompilation, OfGraph


class ParameterKind(StrEnum):
    """Where the value of a parameter comes from."""

    TENSOR = "tensor"
    NUMBER = "number"
    CONSTANT = "constant"
    """A `tl.constexpr` that the call passes."""
    CONFIG = "config"
    """A `tl.constexpr` that a configuration sets."""
    NONE = "none"
    DEFAULT = "default"
    """The default in the kernel's signature, because the call does not pass it."""


class Parameter(Struct, frozen=True, omit_defaults=True):
    """A parameter of a kernel in one call."""

    JSON: ClassVar[str] = "name kind constexpr value|null_if_empty fixed dtype|null_if_empty shape written read"
    name: str
    kind: ParameterKind
    constexpr: bool
    value: str
    """The value as text; empty for a tensor, or if the call does not pass it."""
    dtype: str
    shape: tuple[str, ...]
    written: bool | None = None
    """Whether torch assumes that the kernel writes the tensor; None: not a tensor, or not known."""
    read: bool | None = None
    """Whether torch assumes that the kernel reads it; torch 2.11 does not determine this."""
    # The record of the generated code says so, not that of the call.
    fixed: bool = False
    """Whether Inductor writes the value into the generated code, so that another value needs another kernel."""


class Epilogue(StrEnum):
    """Whether Inductor fuses the ops after the kernel into it."""

    FUSED = "fused"
    POSSIBLE = "possible"
    """Inductor could fuse ops into it, but fused none."""
    SWITCHED_OFF = "switched_off"
    """A setting disables the fusion, although the kernel passes the checks that torch makes first."""
    WRITES = "writes"
    """Torch does not see exactly one tensor that the kernel writes once and does not read."""
    STORES = "stores"
    """Its source does not have exactly one `tl.store`."""
    NOT_EMPTY = "not_empty"
    """The tensor that it writes is not a new one from torch.empty."""
    UNKNOWN_TO_TORCH = "unknown_to_torch"
    """This torch has no such fusion."""


class TritonOp(Struct, frozen=True):
    """The `torch.library.triton_op` that calls a kernel."""

    JSON: ClassVar[str] = "name file|relative line fallbacks autograd flops mutates"
    name: str
    """`mylib::scale`"""
    file: str
    line: Integer
    fallbacks: tuple[str, ...]
    """Devices for which a separate kernel is registered (`register_kernel`)."""
    autograd: bool
    flops: bool
    """Whether a formula counts its FLOPs (`register_flop_formula`)."""
    mutates: tuple[str, ...]
    """The arguments that its author declares as mutated."""


class Grid(Struct, frozen=True):
    """The sizes of a grid, as torch prints them."""

    sizes: tuple[str, ...]


class Configuration(Struct, frozen=True):
    """The values that a configuration sets, including values from triton.heuristics."""

    sets: Mapping[str, str]


class UserKernel(OfGraph, frozen=True, omit_defaults=True):
    """One call of a Triton kernel that the user wrote."""

    JSON: ClassVar[str] = (
        "graph stage operation kernel file|relative line name|null_if_empty lines device decorators parameters "
        "written=known_written assumed=is_assumed assumed_because=assumed|null_if_empty grids configs key heuristics "
        "restored zeroed flops epilogue op"
    )
    KIND: ClassVar[str] = "user_kernel"
    stage: Stage
    operation: str
    """The scheduler's name for the call, as in `Fusion.nodes` and `Launch.operations`."""
    kernel: str
    """The user's name for the kernel."""
    file: str
    line: Integer
    """Where it is defined."""
    device: str
    decorators: tuple[str, ...]
    """Triton's classes, outermost first: `Autotuner`, `Heuristics`, `JITFunction`."""
    parameters: tuple[Parameter, ...]
    # By the log's names, the properties below have these without the Structs around them.
    all_grids: tuple[Grid, ...] = field(name="grids")
    all_configs: tuple[Configuration, ...] = field(name="configs")
    key: tuple[str, ...]
    """The `key` of triton.autotune."""
    heuristics: tuple[str, ...]
    """Parameters that triton.heuristics sets."""
    restored: tuple[str, ...]
    zeroed: tuple[str, ...]
    flops: bool
    """Whether a registered formula counts the kernel's FLOPs."""
    stack: str
    """The stack of the call."""
    assumed: str | None = None
    """Why torch assumes that the kernel writes every tensor; empty: torch knows what it writes. None: not known."""
    op: TritonOp | None = None
    # The log has the stack instead of the lines, and a record of the generated code for the rest.
    lines: tuple[str, ...] = ()
    """`file:line` of the call."""
    name: str = ""
    """Inductor's name for the kernel, as in `Kernel.name`; empty: Inductor generated no code for it."""
    epilogue: Epilogue | None = None
    """None: no code was generated."""

    @property
    def grids(self) -> tuple[tuple[str, ...], ...]:
        """One grid for each configuration, or one grid for all."""
        return tuple(each.sizes for each in self.all_grids)

    @property
    def configs(self) -> tuple[Mapping[str, str], ...]:
        """The values that each configuration sets."""
        return tuple(each.sets for each in self.all_configs)

    @property
    def autotuned(self) -> bool:
        """Whether the user decorated it with triton.autotune."""
        return "Autotuner" in self.decorators

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """The parameters that are tensors."""
        return tuple(each for each in self.parameters if each.kind is ParameterKind.TENSOR)

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the tensors that torch assumes the kernel writes."""
        return tuple(each.name for each in self.tensors if each.written)

    @property
    def known_written(self) -> tuple[str, ...] | None:
        """The same; None if torch does not say."""
        return None if self.assumed is None else self.written

    @property
    def is_assumed(self) -> bool | None:
        """Whether torch assumes that the kernel writes every tensor; None: not known."""
        return None if self.assumed is None else bool(self.assumed)


class UserKernelWritten(OfCompilation, frozen=True):
    """Inductor generated the code for a call of a user's kernel."""

    KIND: ClassVar[str] = "user_kernel_code"
    stage: Stage
    operation: str
    name: str
    constants: Mapping[str, str]
    epilogue: Epilogue


UserKernelEvent = UserKernel | UserKernelWritten
