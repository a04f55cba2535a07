"""Group equal calls of user-written Triton kernels, and find what limits each kernel."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.user_kernels import Epilogue, Parameter, UserKernel
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import count

_ONE_GRID = 1
"""All configurations of a kernel run with the same one."""


class UserKernelNote(Struct, frozen=True):
    """What limits a kernel, or what its author should know; `todo` may be empty."""

    JSON: ClassVar[str] = "text fix=todo|null_if_empty"
    text: str
    todo: str = ""


class NotedUserKernel(Struct, frozen=True):
    """One call of a Triton kernel that the user wrote."""

    JSON: ClassVar[str] = "*of notes"
    of: UserKernel

    @property
    def notes(self) -> tuple[UserKernelNote, ...]:
        """What limits the kernel."""
        return tuple(notes(self.of))


class UserKernelCalls(Struct, frozen=True):
    """Equal calls of one kernel, from one line in one graph part."""

    kernel: UserKernel
    """The first call."""
    number: int
    names: tuple[str, ...]
    """Inductor's names for the kernel; empty if Inductor generated no code for it."""


def calls(session: Session) -> tuple[UserKernelCalls, ...]:
    """Return the calls of user-written kernels in order of first appearance; equal calls form a group."""
    # By text: a call holds mappings, so it cannot be a key. Numbers of operations and names differ in each call.
    alike = grouped(session.user_kernels, lambda each: repr(replace(each, operation="", name="")))
    return tuple(_calls(group) for group in alike.values())


def _calls(group: list[UserKernel]) -> UserKernelCalls:
    names = dict.fromkeys(each.name for each in group if each.name)
    return UserKernelCalls(group[0], len(group), tuple(names))


def in_one_line(session: Session) -> str:
    """Summarize the user-written kernels and their limits; empty if there are none."""
    kernels = session.user_kernels
    if not kernels:
        return ""
    names = {(each.file, each.line, each.kernel) for each in kernels}
    summary = f"{count(len(names), 'user-written Triton kernel')}, {count(len(kernels), 'call')}"
    assumed = sum(bool(each.assumed) for each in kernels)
    if assumed:
        summary += f"; for {count(assumed, 'call')}, torch assumes that all tensors are written"
    unwritten = sum(not each.name for each in kernels)
    if unwritten:
        return f"{summary}; no code was generated for {unwritten}"
    return summary


def stuck(session: Session) -> Iterator[tuple[UserKernel, UserKernelNote]]:
    """Yield the kernels that have no code because of their device, with advice."""
    for each in calls(session):
        if not each.names:
            yield from ((each.kernel, note) for note in _cpu_notes(each.kernel))


def specialized(kernel: UserKernel) -> tuple[Parameter, ...]:
    """Return the parameters that are constants in the generated code or, if there is no code, in the call."""
    return tuple(each for each in kernel.parameters if (each.fixed or each.constexpr) and each.value)


def grid_depends_on_config(kernel: UserKernel) -> bool:
    """Whether configurations differ in their grid."""
    return len(set(kernel.grids)) > _ONE_GRID


def notes(kernel: UserKernel) -> Iterator[UserKernelNote]:
    """Yield the limits of a kernel: torch's assumptions, code that does not run, and differences from plain Triton."""
    if kernel.assumed:
        yield UserKernelNote(
            f"Torch could not determine which tensors it writes, and assumes all {len(kernel.tensors)}: "
            f"{_reason(kernel.assumed)}",
            "Therefore torch copies tensors that are used after the call, including inputs.",
        )
    yield from _cpu_notes(kernel)
    yield from _tuning_notes(kernel)
    # Only training has a forward of its own; a graph for inference needs no gradient.
    if kernel.stage is not Stage.FORWARD:
        return
    if kernel.op is None:
        yield UserKernelNote(
            "It has no gradient.",
            "For training: torch.autograd.Function, or a triton_op with register_autograd.",
        )
    elif not kernel.op.autograd:
        yield UserKernelNote(
            f"{kernel.op.name} has no gradient.", f"For training: {_op_variable(kernel)}.register_autograd(backward)."
        )


def _reason(raised: str) -> str:
    """Shorten an error of Triton: drop the source between the place and the message."""
    lines = [line.strip() for line in raised.splitlines() if line.strip()]
    if len(lines) > 1:
        # Triton's error has the place first and the message last, with the source in between.
        return " … ".join((lines[0], lines[-1]))
    return raised


def _op_variable(kernel: UserKernel) -> str:
    if kernel.op:
        return kernel.op.name.rpartition("::")[2]
    return ""


def _cpu_notes(kernel: UserKernel) -> Iterator[UserKernelNote]:
    device = kernel.device.partition(":")[0]
    fallbacks = kernel.op.fallbacks if kernel.op else ()
    if device in fallbacks:
        yield UserKernelNote(
            f"Its kernel for {device} does not run here: torch.compile traces the Triton code of a triton_op on every "
            "device.",
            "Let the op's function return plain torch operations if `x.is_cuda` is false.",
        )
    # The note above explains the same with more: the author has code for this device, which does not run.
    elif device == "cpu":
        yield UserKernelNote("Its tensors are on the CPU, which Triton does not support.", "Call it with GPU tensors.")


def _tuning_notes(kernel: UserKernel) -> Iterator[UserKernelNote]:
    # Without a key, Triton itself tunes only once as well.
    if kernel.autotuned and len(kernel.configs) > 1 and kernel.key:
        yield UserKernelNote(
            f"torch.compile autotunes once for each graph, at its first call. A new value of {', '.join(kernel.key)} "
            "does not trigger autotuning again, unlike without torch.compile.",
            "To autotune for each size, make sizes static (dynamic=False): each size then gets a separate graph.",
        )
    if kernel.heuristics:
        yield UserKernelNote(
            f"Torch computes the values of triton.heuristics ({', '.join(kernel.heuristics)}) while tracing and keeps "
            "them fixed."
        )


EPILOGUES = {
    Epilogue.FUSED: "the ops after it are fused into it",
    Epilogue.POSSIBLE: "torch can fuse the ops after it into it, but fused none",
    Epilogue.SWITCHED_OFF: (
        "nothing is fused into it: Inductor's option epilogue_fusion_user_defined_triton_kernel is off"
    ),
    Epilogue.WRITES: ("nothing can be fused into it: it must write exactly one tensor, once, and not read it"),
    Epilogue.STORES: "nothing can be fused into it: its source needs exactly one tl.store",
    Epilogue.NOT_EMPTY: "nothing can be fused into it: its output is not a new tensor from torch.empty",
    Epilogue.UNKNOWN_TO_TORCH: "nothing is fused into it: this torch version does not fuse into user-written kernels",
}
"""Whether Inductor fuses the ops after a kernel into it."""
