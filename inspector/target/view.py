"""What a run with `--target` emitted code for, what only that GPU can tell, and where the program asked about it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath

from ctrace.inspector.model.built import Gpu
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.session import Graph, Session
from ctrace.inspector.model.target import DeviceQuestion, Undecided
from ctrace.inspector.words.counting import named

NEEDS_DEVICE = "not measured: that needs the device"
_KINDS = {
    "padding": ("matrix product might be padded", "matrix products might be padded"),
    "autotuning": ("choice between kernels is autotuned", "choices between kernels are autotuned"),
    "configuration": ("kernel has several configurations", "kernels have several configurations"),
}
"""How each kind of choice is counted."""


@dataclass(frozen=True, slots=True)
class Open:
    """Choices of one kind that torch makes by timing on the device."""

    kind: str
    choices: tuple[Undecided, ...]

    @property
    def sentence(self) -> str:
        """Count them: `2 matrix products might be padded`."""
        number = len(self.choices)
        one, several = _KINDS.get(self.kind, (f"choice of {self.kind}", f"choices of {self.kind}"))
        return f"{number} {one if number == 1 else several}"


def target_of(session: Session) -> Gpu | None:
    """Give the GPU that code was emitted for; None: for the device that the program used."""
    return session.gpu if session.gpu is not None and session.gpu.target else None


def called(gpu: Gpu) -> str:
    """Name a GPU: `h100 (NVIDIA H100 80GB HBM3, sm_90)`."""
    return f"{gpu.target} ({gpu.name}, sm_{''.join(map(str, gpu.multiprocessor.capability))})"


def target_sentence(session: Session) -> str:
    """Say what code was emitted for and that it was not run there; empty: no other GPU was named."""
    gpu = target_of(session)
    if gpu is None:
        return ""
    where = session.environment.device or "another device"
    missing = not_emitted(session)
    left = f" No code was emitted of {listed(missing)}; the problems may say why." if missing else ""
    return f"Code emitted for {called(gpu)}: nothing was run on it, the program ran on {where}.{left}"


def listed(graphs: tuple[Graph, ...]) -> str:
    """Name graphs: `graphs 0/0, 1/0, 2/0, 3/0 and 2 more`."""
    names = [graph.id for graph in graphs]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{named(len(names), 'graph')} {', '.join(names[:4])}{more}"


def not_emitted(session: Session) -> tuple[Graph, ...]:
    """Give the graphs of which there is no code, where it was to be emitted for a GPU."""
    there = {code.graph for code in session.code} | {kernel.graph for kernel in session.kernels}
    return tuple(graph for graph in session.graphs if graph.id not in there) if target_of(session) else ()


def left_open(session: Session) -> tuple[Open, ...]:
    """Group the choices that only the device can tell by kind, in the order in which they came up."""
    if target_of(session) is None:
        return ()
    every = (*session.undecided, *_configurations(session))
    kinds = dict.fromkeys(each.kind for each in every)
    return tuple(Open(kind, tuple(each for each in every if each.kind == kind)) for kind in kinds)


def _configurations(session: Session) -> tuple[Undecided, ...]:
    """Give kernels that were compiled with several configurations, none chosen, where no record says so."""
    told = {(each.graph, each.stage, each.subject) for each in session.undecided if each.kind == "configuration"}
    lines = {(each.graph, each.stage, each.name): each.lines for each in session.kernels}
    return tuple(
        Undecided(*key[:2], "configuration", key[2], f"all {number} were compiled", lines=lines.get(key, ()))
        for key, number in several(session).items()
        if key not in told
    )


def several(session: Session) -> dict[tuple[str, Stage, str], int]:
    """Count the configurations of each kernel that was compiled with several of which none is chosen."""
    counts = Counter((each.graph, each.stage, each.kernel) for each in session.built)
    chosen = {(each.graph, each.stage, each.kernel) for each in session.built if each.chosen}
    return {key: number for key, number in counts.items() if number > 1 and key not in chosen}


def open_sentence(session: Session) -> str:
    """Sum up what only the device can tell; empty: nothing is known to be so."""
    return "; ".join(each.sentence for each in left_open(session))


def question_sentence(each: DeviceQuestion) -> str:
    """Say what was asked, what it was told, and what follows."""
    if each.as_target:
        return f"`{each.asked}` was {each.answer}, as it would be with the GPU"
    return f"`{each.asked}` was {each.answer}; with the GPU that might differ, and the program might go another way"


def question_place(each: DeviceQuestion) -> str:
    """Write `model.py:12`."""
    return f"{PurePath(each.file).name}:{each.line}"


def questions(session: Session) -> tuple[DeviceQuestion, ...]:
    """Give the places where the program asked about the device, those first that may go another way there."""
    return tuple(sorted(session.asked, key=lambda each: each.as_target))
