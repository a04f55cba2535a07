"""Triton kernels that the user wrote: calls that are alike told once, and what limits them in plain words."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ctrace.inspector.model.kernels import Kernel, Stage
from ctrace.inspector.model.session import Session
from ctrace.inspector.model.user_kernels import Epilogue, Parameter, UserKernel
from ctrace.inspector.words.counting import count

_ONE_GRID = 1


@dataclass(frozen=True, slots=True)
class Note:
    """Something that holds back a kernel, or that its author should know; `todo` may be empty."""

    text: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one kernel from one line, in one graph part, that differ in nothing else."""

    kernel: UserKernel
    """The first of them."""
    number: int
    names: tuple[str, ...]
    """What Inductor calls it; empty: no code was written."""


def calls(session: Session) -> tuple[Calls, ...]:
    """Give the calls of user-written kernels, those that are alike together, in the order of the first."""
    alike: dict[str, list[UserKernel]] = {}
    for each in session.user_kernels:
        alike.setdefault(repr(replace(each, operation="", name="")), []).append(each)
    return tuple(_calls(group) for group in alike.values())


def _calls(group: list[UserKernel]) -> Calls:
    names = dict.fromkeys(each.name for each in group if each.name)
    return Calls(group[0], len(group), tuple(names))


def user_kernels_of(session: Session, kernel: Kernel) -> tuple[UserKernel, ...]:
    """Give the calls of user-written code behind a kernel; empty: Inductor wrote it."""
    wanted = kernel.graph, kernel.stage, kernel.name
    return tuple(each for each in session.user_kernels if (each.graph, each.stage, each.name) == wanted)


def in_one_line(session: Session) -> str:
    """Say how many there are and of how many torch knows less than it should; empty: there are none."""
    kernels = session.user_kernels
    if not kernels:
        return ""
    names = {(each.file, each.line, each.kernel) for each in kernels}
    said = f"{count(len(names), 'user-written Triton kernel')}, {count(len(kernels), 'call')}"
    assumed = sum(bool(each.assumed) for each in kernels)
    if assumed:
        said += f"; of {assumed} torch had to assume that all tensors are written"
    unwritten = sum(not each.name for each in kernels)
    return f"{said}; for {unwritten} no code was written" if unwritten else said


def stuck(session: Session) -> Iterator[tuple[UserKernel, Note]]:
    """Give the kernels for which no code could be written because of their device, and what to do."""
    for each in calls(session):
        if not each.names:
            yield from ((each.kernel, note) for note in _cpu_notes(each.kernel))


def specialised(kernel: UserKernel) -> tuple[Parameter, ...]:
    """Give the parameters whose value is in the code; before code is written, those that the call makes constant."""
    return tuple(each for each in kernel.parameters if (each.fixed or each.constexpr) and each.value)


def grid_depends_on_config(kernel: UserKernel) -> bool:
    """Whether the grid is another one for another configuration."""
    return len(set(kernel.grids)) > _ONE_GRID


def notes(kernel: UserKernel) -> Iterator[Note]:
    """Say what limits a kernel: what torch had to assume, what does not run, what it does otherwise than Triton."""
    if kernel.assumed:
        yield Note(
            f"Torch could not tell which tensors it writes, and takes all {len(kernel.tensors)} as written: "
            f"{_reason(kernel.assumed)}",
            "Until torch can, it copies tensors that are used again after the call, inputs among them.",
        )
    yield from _cpu_notes(kernel)
    yield from _tuning_notes(kernel)
    if kernel.stage is not Stage.FORWARD:
        return
    if kernel.op is None:
        yield Note(
            "It has no gradient of its own.",
            "For training: torch.autograd.Function, or a triton_op with register_autograd.",
        )
    elif not kernel.op.autograd:
        yield Note(
            f"{kernel.op.name} has no gradient.", f"For training: {_op_variable(kernel)}.register_autograd(backward)."
        )


def _reason(raised: str) -> str:
    """Leave out the source that Triton's compiler puts between the place and what is wrong there."""
    lines = [line.strip() for line in raised.splitlines() if line.strip()]
    return " … ".join((lines[0], lines[-1])) if len(lines) > 1 else raised


def _op_variable(kernel: UserKernel) -> str:
    return kernel.op.name.rpartition("::")[2] if kernel.op else ""


def _cpu_notes(kernel: UserKernel) -> Iterator[Note]:
    device = kernel.device.partition(":")[0]
    fallbacks = kernel.op.fallbacks if kernel.op else ()
    if device in fallbacks:
        yield Note(
            f"Its kernel for {device} does not run here: torch.compile looks into the Triton code of a triton_op, "
            f"whatever the device.",
            "Have the function of the op return plain torch operations where `x.is_cuda` is false.",
        )
    elif device == "cpu":
        yield Note("Its tensors are on the CPU, for which Triton compiles nothing.", "Call it with tensors of a GPU.")


def _tuning_notes(kernel: UserKernel) -> Iterator[Note]:
    if kernel.autotuned and len(kernel.configs) > 1 and kernel.key:
        yield Note(
            f"torch.compile tunes once for each graph, at its first call: a new value of {', '.join(kernel.key)} "
            "does not tune again, as it would without torch.compile.",
            "For tuning by size, have sizes static (dynamic=False): each then has a graph of its own.",
        )
    if kernel.heuristics:
        yield Note(
            f"What triton.heuristics sets ({', '.join(kernel.heuristics)}) is computed while torch traces, and fixed "
            "from then on."
        )


EPILOGUES = {
    Epilogue.FUSED: "what follows is fused into it",
    Epilogue.POSSIBLE: "torch may fuse what follows into it; here it fused nothing",
    Epilogue.SWITCHED_OFF: (
        "nothing is fused into it: Inductor's option epilogue_fusion_user_defined_triton_kernel is off"
    ),
    Epilogue.WRITES: ("nothing can be fused into it: torch must see one tensor that is written, once, and is not read"),
    Epilogue.STORES: "nothing can be fused into it: its source needs exactly one tl.store",
    Epilogue.NOT_EMPTY: "nothing can be fused into it: what it writes is not a new tensor from torch.empty",
    Epilogue.UNKNOWN_TO_TORCH: "nothing is fused into it: this torch fuses nothing into user-written kernels",
}
"""Whether Inductor fuses what follows a kernel into it, in words."""
