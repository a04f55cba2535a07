"""Provide the target GPU's random generator.

If forward and backward must draw the same numbers (dropout inside a checkpointed attention), AOTAutograd passes a copy
of the device's generator to both (2.11 to 2.13, _functorch/partitioners.py and _inductor/ir.py). Emitting code draws no
numbers; it reads only the generator's device.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched


@contextmanager
def one_generator() -> Iterator[None]:
    """Provide one default CUDA generator in the block."""
    import torch

    with patched(torch.cuda, "default_generators", (_generator(),)):
        yield


def _generator() -> Any:
    import torch

    class Generator(torch.Generator):
        @property
        def device(self) -> Any:  # type: ignore[override]  # writable in the stubs, read-only in C++
            return torch.device("cuda", 0)

        def clone_state(self) -> Any:
            return Generator()

    return Generator()
