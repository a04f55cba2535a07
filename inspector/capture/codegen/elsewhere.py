"""What emitting code for another device needs to know of it; the virtual GPU answers (features/gpus/child/door.py)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ctrace.inspector.capture.core.cores import Cores
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.source import When


class KernelCompiler(Protocol):
    """Compiles emitted kernels to machine code."""

    def jobs(self, wrapper: str, part: PartIdentity) -> list[Any]:
        """Return the kernels in the code of a graph part that are still to be compiled."""

    def compile(self, jobs: list[Any]) -> None:
        """Compile kernels, record the outcomes, and wait until all are done."""

    def discard(self) -> None:
        """Remove temporary files without recording anything: the program is ending."""

    def end(self) -> None:
        """Record what remains, and remove temporary files."""


class Elsewhere(Protocol):
    """A device that code is emitted for, and that need not exist here."""

    def compiler(self, cores: Cores) -> KernelCompiler:
        """Return the compiler of its kernels."""

    def candidates(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Return a context in which choices are listed, not timed; None: this torch chooses in another way."""

    def patches(self, when: When) -> AbstractContextManager[None]:
        """Change what torch refuses on this machine only."""

    def emitting(self, configured: Callable[[], AbstractContextManager[Any]]) -> AbstractContextManager[None]:
        """Return a context in which Inductor sees the device; failing to emit code in it does not end the program."""

    def tracing(self, inputs: Any) -> AbstractContextManager[None]:
        """Return a context in which AOTAutograd may trace a graph with these inputs."""

    def moved(self, model: Any, inputs: Any) -> list[Any]:
        """Move a graph module to the device, and return its inputs there."""

    def running(self, graph: Any) -> Callable[..., Any]:
        """Return a function that runs a graph here, although some of its ops may have no kernel here."""
