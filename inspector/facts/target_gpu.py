"""A run with `--target`: the GPU's limits, choices that need the device, and the program's queries about the device."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.wire import Integer, OfGraph, Place, Record


class Multiprocessor(Record, frozen=True):
    """The limits of one multiprocessor of a GPU; memory in bytes."""

    capability: tuple[Integer, Integer]
    registers: Integer
    threads: Integer
    shared: Integer
    warp: Integer


class Basis(StrEnum):
    """The evidence for a statement about a kernel."""

    EMITTED = "emitted"
    """Code that Inductor and Triton generated for a device: source, IR, registers."""
    COMPUTED = "computed"
    """Computed from that code: bytes, FLOPs, the occupancy limit, the lower bound on time."""
    MEASURED = "measured"
    """A run on the device."""


NOT_REAL = "are not real: the CPU has no kernel"
"""Part of the problem that says where the program continued with zeros; `ctrace check` searches for this text."""


PUT_ON_CPU = "put on the CPU: this machine has no such GPU"
"""The answer to a program that takes a GPU (`DeviceQuestion.answer`)."""
UNNAMED_GPU = "h100"
"""The GPU as which a rank's questions are answered if no `--target` names one."""


class TimedCandidate(Struct, frozen=True, omit_defaults=True):
    """One of several implementations that torch would time on the device, to choose the fastest."""

    JSON: ClassVar[str] = "name language|null_if_empty configuration|null_if_empty"
    name: str
    """As torch names it: `mm`, `triton_mm_4`."""
    language: str = ""
    """`triton` or `external`, as far as known."""
    configuration: str = ""
    """Such as `BLOCK_M=64, BLOCK_N=32, num_warps=4`."""


class Undecided(OfGraph, frozen=True):
    """A choice that torch makes by timing on the device; without the device, this run took one candidate untimed."""

    JSON: ClassVar[str] = "basis=BASIS graph stage kind subject taken candidates lines|places"
    KIND: ClassVar[str] = "undecided"
    # Of the class, because all choices have it; only JSON repeats it for each.
    BASIS: ClassVar[Basis] = Basis.EMITTED
    stage: Stage
    kind: str
    """`autotuning`, `padding`, `configuration` or what else torch times."""
    subject: str
    """What the choice is about: `mm(128x64, 64x33)`, or a kernel's name."""
    taken: str
    """The candidate that the emitted code uses."""
    candidates: tuple[TimedCandidate, ...] = ()
    lines: tuple[Place, ...] = ()
    """Lines of the user's code, as `file:line`."""


class DeviceQuestion(Record, frozen=True):
    """A place where the program queried the device, and may take another path on the real one; one record per place."""

    JSON: ClassVar[str] = "file|relative line function asked answer as_target"
    KIND: ClassVar[str] = "asked"
    file: str
    line: Integer
    function: str
    asked: str
    """`x.is_cuda`, `torch.cuda.is_available()`."""
    answer: str
    """The answer that the program got."""
    as_target: bool
    """Whether the answer describes the target GPU; otherwise it describes the CPU on which the program ran."""
