"""What a dump wrote, and what it left out."""

from pathlib import Path

from msgspec import Struct

from ctrace.inspector.kernels.built_view import Resources


class DumpedKernel(Struct, frozen=True):
    """A kernel, or a call of a library, and its file."""

    name: str
    language: str
    file: str
    """From the folder of the dump; empty: it has none."""
    why_not: str = ""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    launches: int = 1
    bytes: int | None = None
    """Read and written by the first launch; None: not known."""
    flops: int | None = None
    built: tuple[Resources, ...] = ()
    """Every configuration that was compiled."""
    code: tuple[str, ...] = ()
    """Files of what Triton made of it, from the folder of the dump."""


class DumpedPart(Struct, frozen=True):
    """A graph part, and what was written of it."""

    graph: str
    stage: str
    folder: str
    kernels: tuple[DumpedKernel, ...] = ()
    wrapper: bool = False
    compared: str = ""
    """Why the wrapper is not compared with eager; empty: it is."""
    why_not: str = ""
    """Why nothing was written of it."""
    no_instructions: str = ""
    """Why there are no files of the instructions of its kernels, where Triton compiled them."""


class Dumped(Struct, frozen=True):
    """What was written."""

    folder: Path
    files: tuple[Path, ...] = ()
    parts: tuple[DumpedPart, ...] = ()

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """What has no file, and why."""
        parts = [(f"{part.graph} {part.stage}", part.why_not) for part in self.parts if part.why_not]
        return (*parts, *((each.name, each.why_not) for part in self.parts for each in part.kernels if each.why_not))
