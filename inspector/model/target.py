"""A GPU as far as kernels depend on it, what a run with `--target` cannot know, and what the program asked of it."""

from enum import StrEnum

from msgspec import Struct

from ctrace.inspector.model.kernels import Stage


class Multiprocessor(Struct, frozen=True):
    """What one multiprocessor of a GPU has; memory in bytes."""

    capability: tuple[int, int]
    registers: int
    threads: int
    shared: int
    warp: int = 32


class Basis(StrEnum):
    """What a statement about a kernel rests on."""

    EMITTED = "emitted"
    """Code that Inductor and Triton made, for a given device: source, IR, registers."""
    COMPUTED = "computed"
    """Arithmetic on that: bytes, FLOPs, the limit of occupancy, the least time."""
    MEASURED = "measured"
    """A run on the device."""


NOT_REAL = "are not real: the CPU has no kernel"
"""In the problem that says where the program went on with zeros; a check says it too."""


class Candidate(Struct, frozen=True):
    """One of several ways that torch would time on the device, to choose between."""

    name: str
    """As torch names it: `mm`, `triton_mm_4`."""
    language: str = ""
    """`triton` or `external`, as far as known."""
    configuration: str = ""
    """Such as `BLOCK_M=64, BLOCK_N=32, num_warps=4`."""


class Undecided(Struct, frozen=True):
    """A choice that torch makes by timing on the device; here one way was taken without knowing."""

    graph: str
    stage: Stage
    kind: str
    """`autotuning`, `padding`, `configuration` or what else torch times."""
    subject: str
    """What the choice is about: `mm(128x64, 64x33)`, or a kernel's name."""
    taken: str
    """The way that the emitted code goes."""
    candidates: tuple[Candidate, ...] = ()
    lines: tuple[str, ...] = ()
    """Lines of the user's code, as `file:line`."""


class DeviceQuestion(Struct, frozen=True):
    """A place where the program asked about the device, and so might go another way on the real one; each once."""

    file: str
    line: int
    function: str
    asked: str
    """`x.is_cuda`, `torch.cuda.is_available()`."""
    answer: str
    """The answer that the program got."""
    as_target: bool
    """Whether it was answered as the GPU would; else as the CPU that the program ran on."""
