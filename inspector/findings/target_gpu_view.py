"""The target GPU of a run, the choices that need the device, and the program's queries about the device."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.built import Built, Gpu
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Graph, RunDocument, Session
from ctrace.inspector.facts.target_gpu import PUT_ON_CPU, UNNAMED_GPU, DeviceQuestion, Undecided
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import named

NEEDS_DEVICE = "not measured: needs the device"
_KINDS = {
    "padding": ("matmul may be padded", "matmuls may be padded"),
    "autotuning": ("choice of kernel is autotuned", "choices of kernels are autotuned"),
    "configuration": ("kernel has several configurations", "kernels have several configurations"),
}
"""Singular and plural for each kind of choice."""
_WHICH_GPU = ("get_device_name", "get_device_properties", "get_device_capability")


class Open(Struct, frozen=True):
    """Choices of one kind that torch makes on the device, by autotuning."""

    kind: str
    choices: tuple[Undecided, ...]
    are_compiled: bool = False
    """Whether every choice is between configurations that are all compiled."""

    @property
    def sentence(self) -> str:
        """The choices, counted: `2 matmuls may be padded`."""
        number = len(self.choices)
        one, several = _KINDS.get(self.kind, (f"choice of {self.kind}", f"choices of {self.kind}"))
        return f"{number} {named(number, one, several)}"


def target_of(session: Session) -> Gpu | None:
    """Return the target GPU, or None if the run generated code for the program's own device."""
    if session.gpu is not None and session.gpu.target:
        return session.gpu
    return None


class TargetDevice(Struct, frozen=True):
    """The GPU for which code was generated, and on which nothing ran; memory in bytes, rates per second."""

    JSON: ClassVar[str] = (
        "name=gpu.target title=gpu.name capability=gpu.capability|dotted processors=gpu.processors clock=gpu.clock "
        "bandwidth=gpu.bandwidth l2=gpu.l2 rates=gpu.rates vector_rates=gpu.vector_rates sources=gpu.sources"
    )
    gpu: Gpu


class TargetDocument(RunDocument, frozen=True, kw_only=True):
    """The answer of a view that names the target GPU."""

    target_gpu: TargetDevice | None  # None if the code is for the program's own device


def target_device(session: Session) -> TargetDevice | None:
    """Return the target GPU as views print it; None if the code is for the program's own device."""
    gpu = target_of(session)
    return None if gpu is None else TargetDevice(gpu)


def called(gpu: Gpu) -> str:
    """Return a GPU's full name: `h100 (NVIDIA H100 80GB HBM3, sm_90)`."""
    return f"{gpu.target} ({gpu.name}, sm_{''.join(map(str, gpu.capability))})"


def target_sentence(session: Session) -> str:
    """Say that the kernels were generated for the target GPU and did not run; empty without a target."""
    gpu = target_of(session)
    if gpu is None:
        return _unnamed_sentence(session)
    where = session.environment.device or "another device"
    missing = not_emitted(session)
    if missing:
        left = (
            f" {listed(missing).capitalize()} {named(len(missing), 'has', 'have')} no code; the problems may say why."
        )
    else:
        left = ""
    if missing and len(missing) == len(session.graphs):
        return f"No kernels generated for {called(gpu)}; the program ran on {where}.{left}"
    return f"Kernels generated for {called(gpu)}. Nothing ran on that GPU; the program ran on {where}.{left}"


def _unnamed_sentence(session: Session) -> str:
    """Say that the program takes a GPU although no target names one; empty if it takes none."""
    # Only where tensors went to the CPU instead does a program take a GPU that is not there.
    if all(each.answer != PUT_ON_CPU for each in session.device_questions):
        return ""
    asks = any(name in each.asked for each in session.device_questions for name in _WHICH_GPU)
    answered = ""
    if asks:
        answered = f" What it asks about the GPU is answered as on {UNNAMED_GPU}."
    return (
        f"The program takes a GPU, and there is none: its tensors are on the CPU, and kernels are the CPU's.{answered}"
        f" --target {UNNAMED_GPU} generates a GPU's."
    )


def listed(graphs: tuple[Graph, ...]) -> str:
    """Return the names of graphs in a few words: `graphs 0/0, 1/0, 2/0, 3/0 and 2 more`."""
    names = [graph.id for graph in graphs]
    more = ""
    if len(names) > 4:
        more = f" and {len(names) - 4} more"
    return f"{named(len(names), 'graph')} {', '.join(names[:4])}{more}"


def not_emitted(session: Session) -> tuple[Graph, ...]:
    """Return the graphs for which a run with a target generated no code."""
    there = {code.graph for code in session.code} | {kernel.graph for kernel in session.kernels}
    if target_of(session):
        return tuple(graph for graph in session.graphs if graph.id not in there)
    return ()


def left_open(session: Session) -> tuple[Open, ...]:
    """Group the choices that need the device by kind, in order of appearance."""
    if target_of(session) is None:
        return ()
    choices = (*session.undecided, *_configurations(session))
    compiled = several(session.built)
    return tuple(
        Open(kind, tuple(same), all((each.graph, each.stage, each.subject) in compiled for each in same))
        for kind, same in grouped(choices, lambda each: each.kind).items()
    )


def _configurations(session: Session) -> tuple[Undecided, ...]:
    """Return choices without a record in the log: kernels with several compiled configurations, none of them chosen."""
    recorded = {(each.graph, each.stage, each.subject) for each in session.undecided if each.kind == "configuration"}
    lines = {(each.graph, each.stage, each.name): each.lines for each in session.kernels}
    return tuple(
        Undecided(
            key[1], "configuration", key[2], f"all {number} were compiled", lines=lines.get(key, ()), graph=key[0]
        )
        for key, number in several(session.built).items()
        if key not in recorded
    )


def several(built: Iterable[Built]) -> dict[tuple[str, Stage, str], int]:
    """Count the configurations of each kernel that has several and none of them chosen."""
    found = [(each.chosen, (each.graph, each.stage, each.kernel)) for each in built]
    counts = Counter(key for _, key in found)
    chosen = {key for is_chosen, key in found if is_chosen}
    # A kernel with a chosen configuration was decided, even if others were compiled as well.
    return {key: number for key, number in counts.items() if number > 1 and key not in chosen}


def open_sentence(session: Session) -> str:
    """Summarize the choices that need the device; empty if there are none."""
    return "; ".join(each.sentence for each in left_open(session))


def question_sentence(each: DeviceQuestion) -> str:
    """Describe a query about the device, its answer, and the consequence."""
    if each.as_target:
        return f"`{each.asked}` was {each.answer}, as on the GPU"
    return f"`{each.asked}` was {each.answer}; on the GPU it may differ, and the program may take another path"


def question_place(each: DeviceQuestion) -> str:
    """Return the place as `model.py:12`."""
    return f"{PurePath(each.file).name}:{each.line}"


def questions(session: Session) -> tuple[DeviceQuestion, ...]:
    """Return the program's queries about the device; queries whose answer may differ on the GPU come first."""
    return tuple(sorted(session.device_questions, key=lambda each: each.as_target))
