"""What a dump wrote, and what it left out."""

from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.session import RunDocument
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.kernels.built_view import Resources
from ctrace.inspector.findings.target_gpu_view import TargetDevice


class DumpedKernel(Struct, frozen=True):
    """A kernel, or a call of a library, and its file."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES name language file|null_if_empty left_out=why_not|null_if_empty ops lines launches "
        "bytes flops built code"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(("bytes", "flops"), Basis.COMPUTED)
    name: str
    language: str
    file: str
    """Path relative to the dump's folder; empty if there is no file."""
    why_not: str = ""
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    launches: int = 1
    bytes: int | None = None
    """Bytes that the first launch reads and writes; None if not known."""
    flops: int | None = None
    built: tuple[Resources, ...] = ()
    """Every compiled configuration."""
    code: tuple[str, ...] = ()
    """Files with the code that Triton compiled, relative to the dump's folder."""


class DumpedPart(Struct, frozen=True):
    """A graph part, and its dumped files."""

    graph: str
    stage: str
    folder: str
    kernels: tuple[DumpedKernel, ...] = ()
    wrapper: bool = False
    compared: str = ""
    """Why the wrapper is not compared with eager; empty if it is."""
    why_not: str = ""
    """Why the part has no files; empty if it has some."""
    no_instructions: str = ""
    """Why Triton's kernels have no files with machine code; empty if they have some, or if there is no such kernel."""


class NotDumped(Struct, frozen=True):
    """What has no file in a dump."""

    name: str
    why: str


class Dumped(RunDocument, frozen=True, kw_only=True):
    """The result of a dump."""

    JSON: ClassVar[str] = "schema verdict target_gpu folder files left_out problems=run.problems"
    target_gpu: TargetDevice | None
    target_sentence: str
    """What was generated for the target GPU; empty without one."""
    folder: Path
    files: tuple[Path, ...] = ()
    parts: tuple[DumpedPart, ...] = ()

    @property
    def left_out(self) -> tuple[NotDumped, ...]:
        """What has no file, and why."""
        parts = [NotDumped(f"{part.graph} {part.stage}", part.why_not) for part in self.parts if part.why_not]
        every = (each for part in self.parts for each in part.kernels)
        return (*parts, *(NotDumped(each.name, each.why_not) for each in every if each.why_not))
